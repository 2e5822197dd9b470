"""The same project runs at each site: `SHOP_SITE` names the site, `SHOP_DATABASE` its database."""

import os
from urllib.parse import urlsplit

SITE = os.environ.get("SHOP_SITE", "north")


def database(url):
    """Return Django's settings for a path of SQLite or a URL `postgresql://user:password@host:port/name`."""
    parts = urlsplit(url)
    if parts.scheme != "postgresql":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": url,
            # Wait for SQLite's one writer at the beginning of a transaction, where waiting helps.
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 30},
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.strip("/"),
        "USER": parts.username or "",
        "PASSWORD": parts.password or "",
        "HOST": parts.hostname or os.environ.get("PGHOST", ""),
        "PORT": parts.port or "",
    }


DATABASES = {"default": database(os.environ.get("SHOP_DATABASE", f"{SITE}.db"))}
LRQ = {"SITE_ID": SITE}

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "lrq.contrib.django",
    "shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "shop.urls"
ALLOWED_HOSTS = ["localhost", "127.0.0.1"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = os.environ.get("SHOP_SECRET", "only for this example")
STATIC_URL = "static/"
TIME_ZONE = "UTC"
USE_TZ = True
