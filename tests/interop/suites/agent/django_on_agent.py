"""Settings for Django's own tests, with an agent as the cache."""

import os

import redis_py_on_agent  # noqa: F401

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": f"redis://127.0.0.1:{os.environ['AGENT_PORT']}",
    }
}
DATABASES = {name: {"ENGINE": "django.db.backends.sqlite3"} for name in ("default", "other")}
SECRET_KEY = "no secret"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = False
