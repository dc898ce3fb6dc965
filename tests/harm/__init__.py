"""No job may fare worse with NIMO than without: see docs/harm.md."""
