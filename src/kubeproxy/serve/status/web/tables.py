"""Tables that are read as tables where there is room, and as cards on a phone."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubeproxy.serve.status.web.markup import Child, Markup, element, together, trusted


class Column(msgspec.Struct, frozen=True):
    """A column: its title, what its cells are, and where a click sorts by it.

    `kind` is "number", "address" (which is not broken into lines) or "". `sort` says how the
    table is sorted by it, "" when it is not.
    """

    title: str
    kind: str = ""
    href: str = ""
    sort: str = ""


def table(caption: str, columns: Sequence[Column], rows: Iterable[Markup]) -> Iterator[Markup]:
    """A table, piece by piece."""
    titles = (
        element(
            "th",
            element("a", column.title, href=column.href) if column.href else column.title,
            scope="col",
            class_=column.kind or None,
            aria_sort=column.sort or None,
        )
        for column in columns
    )
    yield together(
        (
            trusted("<table>"),
            element("caption", caption),
            element("thead", element("tr", *titles)),
            trusted("<tbody>"),
        )
    )
    yield from rows
    yield trusted("</tbody></table>")


def row(columns: Sequence[Column], cells: Sequence[Child], class_: str | None = None) -> Markup:
    """A row; cells beyond the columns are left out.

    Cells know the title of their column, for when there is no room for it above.
    """
    made = (
        element("td", cell, data_label=column.title, class_=column.kind or None)
        for column, cell in zip(columns, cells, strict=False)
    )
    return element("tr", *made, class_=class_)
