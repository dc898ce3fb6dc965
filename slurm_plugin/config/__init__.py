"""The settings of a site: typed structures, and the loader that reads ``nimo.yaml`` into them."""
