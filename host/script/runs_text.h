/*
 * script/runs_text.h - answers about pipelines and runs, as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef SCRIPT_RUNS_TEXT_H
#define SCRIPT_RUNS_TEXT_H

#include "script/pipeline.h"
#include "run/runtime.h"

/* {"id","object":"pipeline.run","pipeline","state","created_ms","updated_ms","params", and
 * "result", "error" or "question" as it stands} */
void runs_text_run(buf *out, const store_run *run);
/* The same without params and the rest. */
void runs_text_brief(buf *out, const store_run *run);
/* {"name","object":"pipeline","description","params","hash"} */
void runs_text_pipeline(buf *out, const pipeline *p);
/* {"object":"list","data":[{"seq","at_ms","type","data"}],"has_more"} */
void runs_text_events(buf *out, const store_event *events, size_t n, bool more);

#endif /* SCRIPT_RUNS_TEXT_H */
