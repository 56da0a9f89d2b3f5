"""NUTS on the collapsed posterior, by nutpie: the reference that other samplers are compared with."""
