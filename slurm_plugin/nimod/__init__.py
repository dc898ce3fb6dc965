"""nimod: the daemon that answers the hooks and ``nimo-advise`` from memory."""
