"""What rq's worker is given to do; it imports its jobs by name."""

import redis


def append(url, key, word):
    redis.Redis.from_url(url).append(key, word + ",")
    return word


def fail():
    raise ValueError("this job fails")
