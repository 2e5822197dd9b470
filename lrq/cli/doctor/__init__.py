"""The examination of a site for `lrq doctor`: each module asks for facts of one kind and judges them."""
