"""Create or migrate the tables of a site: init.py URL SITE."""

import sys

import queues

url, site = sys.argv[1:]
queues.initialize(queues.create_engine(url), site_id=site)
