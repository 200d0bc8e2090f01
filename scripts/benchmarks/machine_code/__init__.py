"""Hot loops on models of processors."""
