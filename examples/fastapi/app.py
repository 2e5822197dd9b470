"""Orders with FastAPI: an order and its message to the head office are one transaction."""

import json
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import lrq
import queues

client = lrq.RoutingQueueSenderClient("orders")


class Base(DeclarativeBase): ...


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str]
    quantity: Mapped[int]


class NewOrder(BaseModel):
    item: str
    quantity: int


@asynccontextmanager
async def lifespan(app: FastAPI):
    """Open the database when the application starts, with the tables of lrq and of the application."""
    app.state.engine = create_async_engine(os.environ.get("SHOP_DATABASE", "sqlite+aiosqlite:///north.db"))
    async with app.state.engine.begin() as connection:
        await connection.run_sync(queues.upgrade, site_id="north")
        await connection.run_sync(Base.metadata.create_all)
    yield
    await app.state.engine.dispose()


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(new: NewOrder, request: Request) -> dict[str, int]:
    """Store an order and transmit it to the head office; an exception undoes both."""
    async with AsyncSession(request.app.state.engine) as session, session.begin():
        order = Order(item=new.item, quantity=new.quantity)
        session.add(order)
        await session.flush()
        message = json.dumps({"order": order.id, "item": order.item, "quantity": order.quantity})
        await client.atransmit_log_entry_message(session, message.encode(), ["office"])
        if order.quantity > 100:
            raise HTTPException(422, "an order has at most 100 pieces")
        placed = order.id
    return {"order": placed}
