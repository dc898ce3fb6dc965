"""Alembic's entry: runs on the connection that `Store.open` hands over."""

from alembic import context

from sacct_ingest.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter a column in place.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
