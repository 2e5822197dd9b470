"""`POST /orders/` with the fields `item` and `quantity`."""

from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from shop import orders


@csrf_exempt
@require_POST
def place(request):
    """Take an order; one above the limit is answered with 422."""
    try:
        order = orders.place(request.POST["item"], int(request.POST["quantity"]))
    except ValueError as error:
        return JsonResponse({"error": str(error)}, status=422)
    return JsonResponse({"order": order.pk}, status=201)
