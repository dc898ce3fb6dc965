"""What a change of count does to the run time of one problem: shapes, evidence, posterior."""
