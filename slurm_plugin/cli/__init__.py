"""The commands: ``nimo`` for admins and ``nimo-advise`` for users."""
