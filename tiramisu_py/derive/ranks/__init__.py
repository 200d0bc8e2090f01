"""Messages between ranks: exchanges, overlap, deep halos."""
