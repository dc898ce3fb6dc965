"""One model of an application: its problems, its resources, and its noise."""
