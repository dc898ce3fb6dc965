"""What a run says besides its times: layout, attributes, usage, and who shares it."""
