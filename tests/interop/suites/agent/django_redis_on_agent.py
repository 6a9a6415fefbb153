"""Settings for django-redis's own tests, in place of theirs, which have a database that an agent has not."""

import os

import redis_py_on_agent  # noqa: F401

SECRET_KEY = "no secret"
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": f"redis://127.0.0.1:{os.environ['AGENT_PORT']}",
        "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
    }
}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
USE_TZ = False
