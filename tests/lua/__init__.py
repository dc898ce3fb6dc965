"""The Lua hooks: in Lua runtimes inside Python, in the real interpreter, in a real slurmctld."""
