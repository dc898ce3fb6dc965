"""The main job on a made-up cluster: what ``nimo demo`` shows, and history for benchmarks."""
