"""What-if: a site's own history through a scheduler, rigid against the policy."""
