/*
 * tests/unit/formats/gguf_test.c - the GGUF reader on sound and damaged files.
 *
 * Files are made in memory by gguf_writer.h. The real model, if it is there, is
 * cut at many places; see model_path.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pawl/plugin_util.h>

#include "gguf_writer.h"
#include "model_path.h"

static pawl_error failure;

/* A small file with one value of every kind and two tensors. */
static void write_sample(struct gguf_writer *w)
{
    static const float numbers[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const uint8_t block[34] = {1, 2, 3};
    static const pawl_bytes words[] = {{"one", 3}, {"", 0}, {"a\0b\xff", 4}};
    static const int32_t ids[] = {-1, 0, 7};
    static const uint8_t yes_no[] = {1, 0};
    gguf_writer_init(w);
    gguf_put_string(w, "general.architecture", "llama");
    gguf_put_u8(w, "n.u8", 200);
    gguf_put_i8(w, "n.i8", -3);
    gguf_put_u16(w, "n.u16", 60000);
    gguf_put_i16(w, "n.i16", 300);
    gguf_put_u32(w, "n.u32", 4000000000u);
    gguf_put_i32(w, "n.i32", -5);
    gguf_put_u64(w, "n.u64", UINT64_MAX);
    gguf_put_i64(w, "n.i64", INT64_MAX);
    gguf_put_f32(w, "n.f32", 0.5f);
    gguf_put_f64(w, "n.f64", 0.25);
    gguf_put_bool(w, "n.bool", true);
    gguf_put_strings(w, "words", words, 3);
    gguf_put_array(w, "ids", GGUF_I32, 3, ids, sizeof ids);
    gguf_put_array(w, "bools", GGUF_BOOL, 2, yes_no, sizeof yes_no);
    gguf_put_array(w, "none", GGUF_STRING, 0, NULL, 0);
    gguf_put_tensor(w, "a.weight", GGUF_T_F32, 2, (uint64_t[]){4, 3}, numbers, sizeof numbers);
    gguf_put_tensor(w, "b.weight", GGUF_T_Q8_0, 1, (uint64_t[]){32}, block, sizeof block);
    gguf_writer_finish(w);
}

static pawl_status open_out(const struct gguf_writer *w, gguf_file **file)
{
    failure.message[0] = '\0';
    return gguf_open_memory(w->out.data, w->out.size, file, &failure);
}

/* Finishes, opens, expects the status and the words in the message. */
static void refused(struct gguf_writer *w, pawl_status expected, const char *words)
{
    gguf_file *file = NULL;
    gguf_writer_finish(w);
    assert_int_equal(open_out(w, &file), expected);
    assert_null(file);
    if (!strstr(failure.message, words))
        fail_msg("message \"%s\" does not say \"%s\"", failure.message, words);
    gguf_writer_clear(w);
}

static void reads_every_kind_of_value(void **state)
{
    (void)state;
    struct gguf_writer w;
    gguf_file *file = NULL;
    write_sample(&w);
    assert_int_equal(open_out(&w, &file), PAWL_OK);
    uint64_t u = 1;
    double f = 0;
    bool b = false;
    pawl_bytes s;
    assert_true(gguf_get_u64(file, "n.u8", &u) && u == 200);
    assert_false(gguf_get_u64(file, "n.i8", &u));
    assert_true(gguf_get_u64(file, "n.u16", &u) && u == 60000);
    assert_true(gguf_get_u64(file, "n.i16", &u) && u == 300);
    assert_true(gguf_get_u64(file, "n.u32", &u) && u == 4000000000u);
    assert_false(gguf_get_u64(file, "n.i32", &u));
    assert_true(gguf_get_u64(file, "n.u64", &u) && u == UINT64_MAX);
    assert_true(gguf_get_u64(file, "n.i64", &u) && u == INT64_MAX);
    assert_true(gguf_get_f64(file, "n.f32", &f) && f == 0.5);
    assert_true(gguf_get_f64(file, "n.f64", &f) && f == 0.25);
    assert_true(gguf_get_bool(file, "n.bool", &b) && b);
    assert_false(gguf_get_u64(file, "n.bool", &u));
    assert_false(gguf_get_bool(file, "n.u8", &b));
    assert_false(gguf_get_u64(file, "missing", &u));
    assert_false(gguf_get_f64(file, "n.u8", &f));
    assert_false(gguf_get_string(file, "n.u8", &s));
    assert_true(gguf_get_string(file, "general.architecture", &s));
    assert_int_equal(s.size, 5);
    assert_memory_equal(s.data, "llama", 5);
    assert_int_equal(gguf_pair_count(file), 16);
    uint32_t type;
    s = gguf_pair(file, 1, &type);
    assert_int_equal(type, GGUF_U8);
    assert_memory_equal(s.data, "n.u8", 4);
    assert_int_equal(gguf_file_bytes(file), w.out.size);
    gguf_close(file);
    gguf_writer_clear(&w);
}

static void reads_arrays(void **state)
{
    (void)state;
    struct gguf_writer w;
    gguf_file *file = NULL;
    write_sample(&w);
    assert_int_equal(open_out(&w, &file), PAWL_OK);
    gguf_array array;
    assert_true(gguf_get_array(file, "words", &array));
    assert_int_equal(array.count, 3);
    pawl_bytes s = gguf_array_string(file, &array, 2);
    assert_int_equal(s.size, 4);
    assert_memory_equal(s.data, "a\0b\xff", 4);
    assert_int_equal(gguf_array_string(file, &array, 1).size, 0);
    assert_null(gguf_array_string(file, &array, 3).data);
    assert_true(gguf_get_array(file, "ids", &array));
    int64_t i = 0;
    uint64_t u = 0;
    double f;
    assert_true(gguf_array_i64(&array, 0, &i) && i == -1);
    assert_false(gguf_array_u64(&array, 0, &u));
    assert_true(gguf_array_u64(&array, 2, &u) && u == 7);
    assert_false(gguf_array_u64(&array, 3, &u));
    assert_false(gguf_array_f64(&array, 0, &f));
    assert_null(gguf_array_string(file, &array, 0).data);
    assert_true(gguf_get_array(file, "none", &array));
    assert_int_equal(array.count, 0);
    assert_false(gguf_get_array(file, "n.u8", &array));
    gguf_close(file);
    gguf_writer_clear(&w);
}

static void finds_tensors(void **state)
{
    (void)state;
    struct gguf_writer w;
    gguf_file *file = NULL;
    write_sample(&w);
    assert_int_equal(open_out(&w, &file), PAWL_OK);
    assert_int_equal(gguf_tensor_count(file), 2);
    const gguf_tensor *a = gguf_tensor_find(file, "a.weight");
    assert_non_null(a);
    assert_ptr_equal(a, gguf_tensor_at(file, 0));
    assert_null(gguf_tensor_at(file, 2));
    assert_int_equal(a->n_dims, 2);
    assert_int_equal(a->dims[0], 4);
    assert_int_equal(a->dims[1], 3);
    assert_int_equal(a->dims[3], 1);
    assert_int_equal(a->bytes, 48);
    assert_true(((const float *)a->data)[11] == 11.0f);
    const gguf_tensor *b = gguf_tensor_find(file, "b.weight");
    assert_int_equal(b->bytes, 34);
    assert_int_equal(((const uint8_t *)b->data)[2], 3);
    assert_int_equal(((uintptr_t)b->data - (uintptr_t)w.out.data) % 32, 0);
    assert_null(gguf_tensor_find(file, "c.weight"));
    assert_null(gguf_tensor_find(file, ""));
    gguf_close(file);
    gguf_writer_clear(&w);
}

static void refuses_every_truncation(void **state)
{
    (void)state;
    struct gguf_writer w;
    write_sample(&w);
    for (size_t size = 0; size < w.out.size; size++) {
        uint8_t *cut = malloc(size ? size : 1); /* its own block: a sanitizer sees overreads */
        memcpy(cut, w.out.data, size);
        gguf_file *file = NULL;
        pawl_status status = gguf_open_memory(cut, size, &file, &failure);
        if (status != (size < 4 ? PAWL_E_UNSUPPORTED : PAWL_E_FORMAT))
            fail_msg("cut at %zu gives status %d", size, status);
        assert_null(file);
        free(cut);
    }
    gguf_writer_clear(&w);
}

/* Every byte set to 0xff and to 0: refused or opened, never a crash. */
static void survives_every_changed_byte(void **state)
{
    (void)state;
    struct gguf_writer w;
    write_sample(&w);
    for (size_t at = 0; at < w.out.size; at++) {
        for (int value = 0; value < 256; value += 51) {
            uint8_t old = w.out.data[at];
            gguf_file *file = NULL;
            w.out.data[at] = (uint8_t)value;
            if (open_out(&w, &file) == PAWL_OK)
                gguf_close(file);
            w.out.data[at] = old;
        }
    }
    gguf_writer_clear(&w);
}

static void refuses_foreign_files(void **state)
{
    (void)state;
    struct gguf_writer w;
    gguf_file *file = NULL;
    assert_int_equal(gguf_open_memory("PK\3\4....", 8, &file, &failure), PAWL_E_UNSUPPORTED);
    assert_int_equal(gguf_open(pawl_text("/nonexistent.gguf"), &file, &failure), PAWL_E_NOT_FOUND);
    assert_int_equal(gguf_open(pawl_text("/tmp"), &file, &failure), PAWL_E_UNSUPPORTED);
    assert_int_equal(gguf_open(pawl_text("/dev/null"), &file, NULL), PAWL_E_UNSUPPORTED);
    assert_int_equal(gguf_open(pawl_text(""), &file, &failure), PAWL_E_ARGUMENT);
    gguf_writer_init(&w);
    w.version = 4;
    refused(&w, PAWL_E_UNSUPPORTED, "version 4");
    gguf_writer_init(&w);
    w.version = 3u << 24;
    refused(&w, PAWL_E_UNSUPPORTED, "big-endian");
    assert_null(file);
    gguf_writer_init(&w);
    w.version = 2;
    gguf_writer_finish(&w);
    assert_int_equal(open_out(&w, &file), PAWL_OK);
    gguf_close(file);
    gguf_close(NULL);
    gguf_writer_clear(&w);
}

static void refuses_huge_counts(void **state)
{
    (void)state;
    struct gguf_writer w;
    uint64_t huge[] = {1, 70000, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        gguf_writer_init(&w);
        w.n_pairs = huge[i];
        refused(&w, PAWL_E_FORMAT, "keys do not fit");
        gguf_writer_init(&w);
        w.n_tensors = huge[i];
        refused(&w, PAWL_E_FORMAT, "tensors do not fit");
        gguf_writer_init(&w);
        gguf_put_array(&w, "list", GGUF_F64, huge[i], NULL, 0);
        refused(&w, PAWL_E_FORMAT, "key 'list'");
        gguf_writer_init(&w);
        gguf_put_array(&w, "list", GGUF_STRING, huge[i], NULL, 0);
        refused(&w, PAWL_E_FORMAT, "key 'list'");
        gguf_writer_init(&w);
        gguf_put_raw(&w, "text", GGUF_STRING, &huge[i], sizeof huge[i]);
        refused(&w, PAWL_E_FORMAT, "key 'text'");
    }
}

static void refuses_bad_values(void **state)
{
    (void)state;
    struct gguf_writer w;
    uint8_t two = 2;
    gguf_writer_init(&w);
    gguf_put_raw(&w, "flag", GGUF_BOOL, &two, 1);
    refused(&w, PAWL_E_FORMAT, "key 'flag': a bool is 2");
    gguf_writer_init(&w);
    gguf_put_raw(&w, "what", 13, &two, 1);
    refused(&w, PAWL_E_FORMAT, "unknown type 13");
    gguf_writer_init(&w);
    gguf_put_array(&w, "nest", GGUF_ARRAY, 1, NULL, 0);
    refused(&w, PAWL_E_FORMAT, "array of arrays");
    gguf_writer_init(&w);
    gguf_put_array(&w, "what", 99, 0, NULL, 0);
    refused(&w, PAWL_E_FORMAT, "unknown type 99");
    gguf_writer_init(&w);
    gguf_put_u32(&w, "", 1);
    refused(&w, PAWL_E_FORMAT, "1 to 65535");
    gguf_writer_init(&w);
    gguf_put_u32(&w, "key", 1);
    gguf_put_bool(&w, "key", true);
    refused(&w, PAWL_E_FORMAT, "key 'key' occurs twice");
    gguf_writer_init(&w);
    gguf_put_u32(&w, "bad\n\x80key", 1);
    gguf_put_u32(&w, "bad\n\x80key", 1);
    refused(&w, PAWL_E_FORMAT, "key 'bad??key'");
}

static void refuses_bad_alignment(void **state)
{
    (void)state;
    struct gguf_writer w;
    uint32_t bad[] = {0, 1, 4, 31, 48, 1u << 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf_writer_init(&w);
        gguf_put_u32(&w, "general.alignment", bad[i]);
        refused(&w, PAWL_E_FORMAT, "general.alignment");
    }
    gguf_writer_init(&w);
    gguf_put_string(&w, "general.alignment", "32");
    refused(&w, PAWL_E_FORMAT, "general.alignment");
    gguf_file *file = NULL;
    float value = 1;
    gguf_writer_init(&w);
    w.alignment = 64;
    gguf_put_u32(&w, "general.alignment", 64);
    gguf_put_tensor(&w, "a", GGUF_T_F32, 1, (uint64_t[]){1}, &value, 4);
    gguf_put_tensor(&w, "b", GGUF_T_F32, 1, (uint64_t[]){1}, &value, 4);
    gguf_writer_finish(&w);
    assert_int_equal(open_out(&w, &file), PAWL_OK);
    const uint8_t *b = gguf_tensor_find(file, "b")->data;
    assert_int_equal((uintptr_t)(b - w.out.data) % 64, 0);
    gguf_close(file);
    gguf_writer_clear(&w);
}

/* One tensor record over 64 bytes of data. */
static void refuse_tensor(const char *name, uint32_t type, uint32_t n_dims, const uint64_t *dims,
                          uint64_t offset, pawl_status expected, const char *words)
{
    struct gguf_writer w;
    uint8_t data[64] = {0};
    gguf_writer_init(&w);
    gguf_put_tensor_record(&w, name, type, n_dims, dims, offset);
    gguf_bytes_add(&w.data, data, sizeof data);
    refused(&w, expected, words);
}

static void refuses_bad_tensors(void **state)
{
    (void)state;
    const uint64_t big = 1ull << 62;
    uint64_t dims[] = {16, 1, 1, 1, 1};
    refuse_tensor("t", GGUF_T_F32, 1, (uint64_t[]){17}, 0, PAWL_E_FORMAT,
                  "tensor 't': data of 68 bytes");
    refuse_tensor("t", GGUF_T_F32, 1, dims, 32, PAWL_E_FORMAT, "truncated");
    refuse_tensor("t", GGUF_T_F32, 1, dims, 31, PAWL_E_FORMAT, "offset 31 is not a multiple");
    refuse_tensor("t", GGUF_T_F32, 1, dims, UINT64_MAX - 31, PAWL_E_FORMAT, "ends beyond");
    refuse_tensor("t", GGUF_T_F32, 1, dims, 1ull << 40, PAWL_E_FORMAT, "ends beyond");
    refuse_tensor("t", GGUF_T_F32, 0, dims, 0, PAWL_E_FORMAT, "0 dimensions");
    refuse_tensor("t", GGUF_T_F32, 5, dims, 0, PAWL_E_FORMAT, "5 dimensions");
    refuse_tensor("t", GGUF_T_F32, 2, (uint64_t[]){4, 0}, 0, PAWL_E_FORMAT, "dimension 1 is 0");
    refuse_tensor("t", GGUF_T_Q4_1, 1, dims, 0, PAWL_E_FORMAT, "Q4_1 needs a multiple of 32");
    refuse_tensor("t", GGUF_T_Q4_K, 1, (uint64_t[]){128}, 0, PAWL_E_FORMAT,
                  "Q4_K needs a multiple of 256");
    refuse_tensor("t", 4, 1, dims, 0, PAWL_E_UNSUPPORTED, "tensor 't': elements of type 4");
    refuse_tensor("t", 999, 1, dims, 0, PAWL_E_UNSUPPORTED, "type 999");
    refuse_tensor("", GGUF_T_F32, 1, dims, 0, PAWL_E_FORMAT, "tensor 0");
    refuse_tensor("t", GGUF_T_F32, 1, &big, 0, PAWL_E_FORMAT, "more than 64 bits");
    refuse_tensor("t", GGUF_T_I8, 2, (uint64_t[]){1ull << 32, 1ull << 32}, 0, PAWL_E_FORMAT,
                  "more than 64 bits");
    refuse_tensor("t", GGUF_T_F32, 4, (uint64_t[]){1, 1ull << 32, 1ull << 31, 2}, 0, PAWL_E_FORMAT,
                  "more than 64 bits");
    refuse_tensor("t", GGUF_T_I8, 1, (uint64_t[]){UINT64_MAX}, 0, PAWL_E_FORMAT,
                  "more than 64 bits");
    struct gguf_writer w;
    gguf_writer_init(&w);
    gguf_put_tensor_record(&w, "t", GGUF_T_I8, 1, dims, 0);
    gguf_put_tensor_record(&w, "t", GGUF_T_I8, 1, dims, 0);
    gguf_bytes_add(&w.data, "0123456789abcdef", 16);
    refused(&w, PAWL_E_FORMAT, "tensor 't' occurs twice");
}

static void knows_its_types(void **state)
{
    (void)state;
    uint64_t elements, bytes;
    assert_string_equal(gguf_type_name(GGUF_T_MXFP4), "MXFP4");
    assert_null(gguf_type_name(5));
    assert_null(gguf_type_name(40));
    static const struct {
        uint32_t type;
        uint64_t elements;
        uint64_t bytes;
    } blocks[] = {{GGUF_T_Q2_K, 256, 84},  {GGUF_T_Q3_K, 256, 110},  {GGUF_T_Q4_K, 256, 144},
                  {GGUF_T_Q5_K, 256, 176}, {GGUF_T_Q6_K, 256, 210},  {GGUF_T_IQ4_NL, 32, 18},
                  {GGUF_T_MXFP4, 32, 17},  {GGUF_T_IQ4_XS, 256, 136}};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        assert_true(gguf_type_block(blocks[i].type, &elements, &bytes));
        assert_int_equal(elements, blocks[i].elements);
        assert_int_equal(bytes, blocks[i].bytes);
    }
    assert_false(gguf_type_block(UINT32_MAX, &elements, &bytes));
}

static void opens_and_cuts_the_real_model(void **state)
{
    (void)state;
    char buffer[4096];
    const char *path = model_path(buffer, sizeof buffer);
    if (!path) {
        print_message("SKIP: no model at %s\n", buffer);
        skip();
    }
    gguf_file *file = NULL;
    assert_int_equal(gguf_open(pawl_text(path), &file, &failure), PAWL_OK);
    assert_int_equal(gguf_tensor_count(file), 272);
    assert_int_equal(gguf_tensor_find(file, "token_embd.weight")->type, GGUF_T_Q8_0);
    gguf_array tokens;
    assert_true(gguf_get_array(file, "tokenizer.ggml.tokens", &tokens));
    pawl_bytes name = gguf_array_string(file, &tokens, 2);
    assert_memory_equal(name.data, "<|im_end|>", 10);
    uint64_t size = gguf_file_bytes(file);
    gguf_close(file);

    int fd = open(path, O_RDONLY);
    void *map = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    close(fd);
    for (uint64_t i = 0; i < 50; i++) { /* half of them inside the header */
        uint64_t cut = i < 25 ? i * 70001 : size / 50 * i + i;
        gguf_file *part = NULL;
        pawl_status status = gguf_open_memory(map, cut, &part, &failure);
        if (status != (cut < 4 ? PAWL_E_UNSUPPORTED : PAWL_E_FORMAT))
            fail_msg("cut at %llu gives status %d", (unsigned long long)cut, status);
    }
    assert_int_equal(gguf_open_memory(map, size - 1, &file, &failure), PAWL_E_FORMAT);
    assert_non_null(strstr(failure.message, "tensor '"));
    assert_non_null(strstr(failure.message, "truncated"));
    munmap(map, (size_t)size);
}

static void opens_a_file_on_disk(void **state)
{
    (void)state;
    struct gguf_writer w;
    char path[] = "/tmp/pawl-gguf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_sample(&w);
    assert_true(gguf_writer_save(&w, path));
    gguf_file *file = NULL;
    assert_int_equal(gguf_open(pawl_text(path), &file, &failure), PAWL_OK);
    assert_non_null(gguf_tensor_find(file, "a.weight"));
    unlink(path);
    gguf_close(file);
    gguf_writer_clear(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_kind_of_value),
        cmocka_unit_test(reads_arrays),
        cmocka_unit_test(finds_tensors),
        cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(survives_every_changed_byte),
        cmocka_unit_test(refuses_foreign_files),
        cmocka_unit_test(refuses_huge_counts),
        cmocka_unit_test(refuses_bad_values),
        cmocka_unit_test(refuses_bad_alignment),
        cmocka_unit_test(refuses_bad_tensors),
        cmocka_unit_test(knows_its_types),
        cmocka_unit_test(opens_and_cuts_the_real_model),
        cmocka_unit_test(opens_a_file_on_disk),
    };
    failure.struct_size = sizeof failure;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
