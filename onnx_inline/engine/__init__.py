"""The inliner: resolve which calls go, specialise each body once, stamp it at every call site."""
