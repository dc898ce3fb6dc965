"""A cache that is bounded by the size of what it holds."""

from slurm_plugin.decision.context_builder import TextCache


def test_values_are_there_until_they_come_to_too_much():
    cache: TextCache[str, int] = TextCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 6)
    assert (cache.get("a"), cache.get("b")) == (1, 2)
    cache.put("c", 3, 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, None, 3)


def test_what_is_larger_than_the_cache_is_not_cached():
    cache: TextCache[str, int] = TextCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 11)
    assert (cache.get("a"), cache.get("b")) == (1, None)
