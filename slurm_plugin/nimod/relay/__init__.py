"""Answers on login nodes: a relay there, a gateway in nimod, and the link between the two.

``frames`` is what travels on a link, ``handshake`` how both sides prove who they are, by ``munge``
or certificates.
"""
