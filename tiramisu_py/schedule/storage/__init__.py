"""Commands on storage: store_in, store_at, fold, place, store_nontemporal, prefetch."""
