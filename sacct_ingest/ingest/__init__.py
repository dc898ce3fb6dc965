"""From a source into the store: in windows of time, resumable, the same when repeated."""
