/*
 * cpu/options.c - see options.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cpu/options.h"

#include <cjson/cJSON.h>
#include <string.h>

#include "formats/label.h"

static const char *const kv_names[] = {[KERNELS_KV_F16] = "f16",
                                       [KERNELS_KV_BF16] = "bf16",
                                       [KERNELS_KV_Q8] = "q8",
                                       [KERNELS_KV_F32] = "f32",
                                       [KERNELS_KV_TYPES] = NULL};

const char *options_kv_name(uint32_t kv)
{
    return kv_names[kv];
}

/* Index of the string value among choices (NULL-terminated). */
static pawl_status choose(const cJSON *item, const char *const *choices, size_t *chosen,
                          pawl_error *error)
{
    for (*chosen = 0; cJSON_IsString(item) && choices[*chosen]; ++*chosen)
        if (strcmp(choices[*chosen], item->valuestring) == 0)
            return PAWL_OK;
    char list[64] = "";
    for (size_t i = 0; choices[i]; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", choices[i]);
    }
    return pawl_fail(error, PAWL_E_ARGUMENT, "option \"%s\" must be one of: %s", item->string,
                     list);
}

static pawl_status read_item(const cJSON *item, cpu_options *options, bool *kv_given,
                             pawl_error *error)
{
    static const char *const numerics[] = {"fast", "f32", NULL};
    static const char *const isas[] = {"auto", "reference", "avx2", "avx512", NULL};
    size_t i;
    pawl_status status;
    if (strcmp(item->string, "numeric") == 0) {
        status = choose(item, numerics, &i, error);
        options->exact = status == PAWL_OK && i == 1;
        return status;
    }
    if (strcmp(item->string, "kv_type") == 0) {
        status = choose(item, kv_names, &i, error);
        options->kv = (uint32_t)i;
        *kv_given = true;
        return status;
    }
    if (strcmp(item->string, "isa") == 0) {
        status = choose(item, isas, &i, error);
        if (status != PAWL_OK)
            return status;
        options->kernels = kernels_choose(isas[i]);
        return options->kernels
                   ? PAWL_OK
                   : pawl_fail(error, PAWL_E_UNSUPPORTED,
                               "option \"isa\": this machine does not have %s", isas[i]);
    }
    pawl_bytes name = {item->string, strlen(item->string)};
    return pawl_fail(error, PAWL_E_ARGUMENT,
                     "unknown option \"%s\"; the CPU engine knows numeric, isa and kv_type",
                     label_of(name).text);
}

pawl_status options_parse(pawl_bytes json, cpu_options *options, pawl_error *error)
{
    cpu_options read = {false, KERNELS_KV_F16, kernels_choose("auto")};
    bool kv_given = false;
    pawl_status status = PAWL_OK;
    if (json.size > 0) {
        cJSON *object = cJSON_ParseWithLength(json.data, (size_t)json.size);
        if (!cJSON_IsObject(object))
            status = pawl_fail(error, PAWL_E_ARGUMENT, "options must be a JSON object");
        for (cJSON *i = object ? object->child : NULL; status == PAWL_OK && i; i = i->next)
            status = read_item(i, &read, &kv_given, error);
        cJSON_Delete(object);
    }
    if (status != PAWL_OK)
        return status;
    if (read.exact && !kv_given)
        read.kv = KERNELS_KV_F32;
    *options = read;
    return PAWL_OK;
}
