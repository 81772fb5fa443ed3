"""Documents for tests: small PDFs of any text, and ones that are damaged or bare.

SPDX-License-Identifier: Apache-2.0
"""
import textwrap
import zlib


def _escape(line):
    return line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("latin-1", "replace")


def _page(text):
    """The content of one page: lines of 90 characters."""
    lines = [line for part in text.split("\n") for line in (textwrap.wrap(part, 90) or [""])]
    shown = b"".join(b"(" + _escape(line) + b") Tj T*\n" for line in lines[:66])
    return b"BT /F1 9 Tf 40 800 Td 11 TL\n" + shown + b"ET"


def make_pdf(contents, compress=True):
    """A PDF of these page contents (bytes in PDF's own language)."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", None, b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for content in contents:
        data = zlib.compress(content, 9) if compress else content
        how = b" /Filter /FlateDecode" if compress else b""
        objects.append(b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(data), how, data))
        objects.append(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R"
                       b" /Resources << /Font << /F1 3 0 R >> >> >>" % len(objects))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    out = bytearray(b"%PDF-1.5\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


def pdf_of(*pages):
    """A PDF with these texts as its pages."""
    return make_pdf([_page(text) for text in pages])


def scanned_pdf():
    """One without a text layer: a grey box."""
    return make_pdf([b"0.5 g 100 100 300 500 re f"])


def damaged_pdf():
    """The first part of one."""
    return pdf_of("This text is never found.")[:200]


def bomb_pdf(pages):
    """A small file whose text is large: 50 KB on each page."""
    line = b"(" + b"x" * 1000 + b") Tj T*\n"
    return make_pdf([b"BT /F1 1 Tf 1 841 Td 1 TL\n" + line * 800 + b"ET"] * pages)
