"""Tables: filter, join and group-by in one pass, through indices, without a table in between.

::

    select product, sum(amount * rate) from orders join customers on customer = id where region = 2 group by product

An order names its customer and its product: both are indices. The sum of each product is a gather through the inverse
of the product's index, so that products run on threads without atomic updates.
"""

from __future__ import annotations

import numpy as np

import tiramisu_py as tm

N, C, K = tm.params("N C K")
o, k = tm.iters("o k")
REGION = 2


def sales() -> tm.Function:
    """The sales of each product to customers of one region, in their currency."""
    f = tm.Function("sales", params=[N, C, K])
    customer = f.input("customer", tm.int32, [N], values=(0, C))
    product = f.input("product", tm.int32, [N], values=(0, K))
    amount = f.input("amount", tm.float64, [N])
    region, rate = f.input("region", tm.int32, [C]), f.input("rate", tm.float64, [C])
    own = tm.select(region[customer[o]] == REGION, amount[o] * rate[customer[o]], 0.0)
    out = f.scatter("out", {k: K}, over={o: N}, at=[product[o]], op=tm.sum, expr=own)
    f.outputs(out)
    out.gather(f.inverse("of_product", product))
    out.parallelize(k)
    return f


def main() -> None:
    """Random tables, beside NumPy with a table for each step."""
    draw = np.random.default_rng(0)
    orders, customers, products = 5000, 300, 40
    customer = draw.integers(0, customers, orders).astype(np.int32)
    product = draw.integers(0, products, orders).astype(np.int32)
    amount, rate = draw.random(orders), 0.5 + draw.random(customers)
    region = draw.integers(0, 5, customers).astype(np.int32)
    f = sales()
    report = f.check()
    assert report.ok and report.bits == "bits preserved", report
    found = f.compile()(customer, product, amount, region, rate, of_product=tm.inverse(product, products))
    kept = region[customer] == REGION
    wanted = np.zeros(products)
    np.add.at(wanted, product[kept], (amount * rate[customer])[kept])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    print(f"{kept.sum()} of {orders} orders count, and no table was made of them")
    print("right: as NumPy filters, joins and adds up")


if __name__ == "__main__":
    main()
