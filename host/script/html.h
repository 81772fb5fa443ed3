/*
 * script/html.h - the text of an HTML page.
 *
 * For reading, not for showing: tags are dropped, references replaced, spaces collapsed as a
 * browser would, blocks set apart by newlines; scripts, styles and the like are left out.
 * Whatever is no good HTML is read as far as it goes: there are no errors. One pass, in time
 * and memory linear in the input. Any thread; no Lua.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_HTML_H
#define SCRIPT_HTML_H

#include "base/buf.h"

/* Appends the text of a page. UTF-8 in, UTF-8 out. False: out's maximum was reached. */
bool html_to_text(const char *page, size_t size, buf *out);

#endif /* SCRIPT_HTML_H */
