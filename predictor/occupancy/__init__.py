"""NIMO: how long an application occupies processor, network and disk for each byte it moves."""
