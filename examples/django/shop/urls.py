"""The pages: orders, and the admin site with the status of the replication."""

from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [path("orders/", views.place), path("admin/", admin.site.urls)]
