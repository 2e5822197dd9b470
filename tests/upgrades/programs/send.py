"""Write numbers for tokyo, one a transaction, until standard input ends: send.py URL FIRST. Print the last number.

Entries have partition keys, and headers in versions that know them.
"""

import inspect
import select
import sys
from itertools import count

from sqlalchemy.orm import Session

import queues
from lr_client import RoutingQueueSenderClient

url, first = sys.argv[1:]
client = RoutingQueueSenderClient("policy")
engine = queues.create_engine(url)
more = {"partition_key": "north"}
if "headers" in inspect.signature(client.transmit_log_entry_message).parameters:
    more["headers"] = {"content-type": "text/plain"}
for number in count(int(first)):
    with Session(engine) as session, session.begin():
        client.transmit_log_entry_message(session, str(number).encode(), ["tokyo"], **more)
    if select.select([sys.stdin], [], [], 0.005)[0]:
        print(number)
        break
