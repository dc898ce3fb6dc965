"""Relay, gateway and the link between them."""
