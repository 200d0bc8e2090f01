"""Conditions on kernels: they can be launched; their threads and streams are ordered."""
