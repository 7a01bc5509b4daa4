/* Numbers for the reductions of random_check: every predefined operation on the types that it is
 * for, and two of a user's. Values are such that the result is exact in any order of operations. */
#ifndef RANDOM_NUMBERS_H
#define RANDOM_NUMBERS_H

#include "random_data.h"

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>

/* Kinds of values in an element. */
enum { INTEGER, FLOAT, DOUBLE, LONG_DOUBLE, TRUTH, BITS, MATRIX };

/* A type that is reduced: one or two values. */
typedef struct {
    const char *name;
    MPI_Datatype type;
    int group; /* index of its operations */
    int values;
    struct { int kind, bytes; size_t at; } value[2];
} number_t;

enum { ARITHMETIC, REAL, COMPLEX, LOGICAL, BYTES, PAIRS, MATRICES, GROUPS };

static number_t numbers[48];
static int number_count;
static MPI_Op multiply_matrices, add_words;
static MPI_Datatype matrix, gapped_matrix;

#define ONE(group, kind, mpi, c) \
    (numbers[number_count++] = (number_t){#mpi, mpi, group, 1, {{kind, sizeof(c), 0}, {0, 0, 0}}})
#define TWO(group, kind, mpi, c, kind2, c2, offset) \
    (numbers[number_count++] = \
         (number_t){#mpi, mpi, group, 2, {{kind, sizeof(c), 0}, {kind2, sizeof(c2), offset}}})
#define PAIR(kind, mpi, c) \
    TWO(PAIRS, kind, mpi, c, INTEGER, int, offsetof(struct { c value; int index; }, index))

/* Not commutative; associative modulo 2^32. */
static void matrix_product(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*type, &lower, &extent);
    for (int i = 0; i < *count; i++) {
        uint32_t *a = (uint32_t *)((char *)in + i * extent);
        uint32_t *b = (uint32_t *)((char *)inout + i * extent);
        uint32_t product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                               a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, product, sizeof product);
    }
}

static void word_sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Aint lower, extent;
    MPI_Type_get_extent(*type, &lower, &extent);
    for (int i = 0; i < *count; i++)
        for (int word = 0; word < 4; word++)
            ((uint32_t *)((char *)inout + i * extent))[word] +=
                ((uint32_t *)((char *)in + i * extent))[word];
}

static inline void make_numbers(void)
{
    ONE(ARITHMETIC, INTEGER, MPI_SIGNED_CHAR, signed char);
    ONE(ARITHMETIC, INTEGER, MPI_UNSIGNED_CHAR, unsigned char);
    ONE(ARITHMETIC, INTEGER, MPI_SHORT, short);
    ONE(ARITHMETIC, INTEGER, MPI_UNSIGNED_SHORT, unsigned short);
    ONE(ARITHMETIC, INTEGER, MPI_INT, int);
    ONE(ARITHMETIC, INTEGER, MPI_UNSIGNED, unsigned);
    ONE(ARITHMETIC, INTEGER, MPI_LONG, long);
    ONE(ARITHMETIC, INTEGER, MPI_UNSIGNED_LONG, unsigned long);
    ONE(ARITHMETIC, INTEGER, MPI_LONG_LONG, long long);
    ONE(ARITHMETIC, INTEGER, MPI_UNSIGNED_LONG_LONG, unsigned long long);
    ONE(ARITHMETIC, INTEGER, MPI_INT8_T, int8_t);
    ONE(ARITHMETIC, INTEGER, MPI_INT16_T, int16_t);
    ONE(ARITHMETIC, INTEGER, MPI_INT32_T, int32_t);
    ONE(ARITHMETIC, INTEGER, MPI_INT64_T, int64_t);
    ONE(ARITHMETIC, INTEGER, MPI_UINT8_T, uint8_t);
    ONE(ARITHMETIC, INTEGER, MPI_UINT16_T, uint16_t);
    ONE(ARITHMETIC, INTEGER, MPI_UINT32_T, uint32_t);
    ONE(ARITHMETIC, INTEGER, MPI_UINT64_T, uint64_t);
    ONE(REAL, FLOAT, MPI_FLOAT, float);
    ONE(REAL, DOUBLE, MPI_DOUBLE, double);
    ONE(REAL, LONG_DOUBLE, MPI_LONG_DOUBLE, long double);
    TWO(COMPLEX, FLOAT, MPI_C_FLOAT_COMPLEX, float, FLOAT, float, sizeof(float));
    TWO(COMPLEX, DOUBLE, MPI_C_DOUBLE_COMPLEX, double, DOUBLE, double, sizeof(double));
    ONE(LOGICAL, TRUTH, MPI_C_BOOL, bool);
    ONE(BYTES, BITS, MPI_BYTE, char);
    PAIR(INTEGER, MPI_SHORT_INT, short);
    PAIR(INTEGER, MPI_2INT, int);
    PAIR(INTEGER, MPI_LONG_INT, long);
    PAIR(FLOAT, MPI_FLOAT_INT, float);
    PAIR(DOUBLE, MPI_DOUBLE_INT, double);
    PAIR(LONG_DOUBLE, MPI_LONG_DOUBLE_INT, long double);
    MPI_Datatype four;
    MPI_Type_contiguous(4, MPI_UINT32_T, &matrix);
    MPI_Type_commit(&matrix);
    MPI_Type_contiguous(4, MPI_UINT32_T, &four);
    MPI_Type_create_resized(four, 0, 24, &gapped_matrix);
    MPI_Type_commit(&gapped_matrix);
    MPI_Type_free(&four);
    numbers[number_count++] = (number_t){"matrix", matrix, MATRICES, 1, {{MATRIX, 16, 0}, {0, 0, 0}}};
    numbers[number_count++] =
        (number_t){"matrix with a gap", gapped_matrix, MATRICES, 1, {{MATRIX, 16, 0}, {0, 0, 0}}};
    MPI_Op_create(matrix_product, 0, &multiply_matrices);
    MPI_Op_create(word_sum, 1, &add_words);
}

static inline void free_numbers(void)
{
    MPI_Op_free(&multiply_matrices);
    MPI_Op_free(&add_words);
    MPI_Type_free(&matrix);
    MPI_Type_free(&gapped_matrix);
}

/* An operation for the type. */
static inline MPI_Op draw_operation(const number_t *number, draw_t *shared, const char **name)
{
    const struct { const char *name; MPI_Op op; unsigned groups; } all[] = {
#define OPERATION(op, groups) {#op, op, groups}
        OPERATION(MPI_MAX, 1 << ARITHMETIC | 1 << REAL),
        OPERATION(MPI_MIN, 1 << ARITHMETIC | 1 << REAL),
        OPERATION(MPI_SUM, 1 << ARITHMETIC | 1 << REAL | 1 << COMPLEX),
        OPERATION(MPI_PROD, 1 << ARITHMETIC | 1 << REAL | 1 << COMPLEX),
        OPERATION(MPI_LAND, 1 << ARITHMETIC | 1 << LOGICAL),
        OPERATION(MPI_LOR, 1 << ARITHMETIC | 1 << LOGICAL),
        OPERATION(MPI_LXOR, 1 << ARITHMETIC | 1 << LOGICAL),
        OPERATION(MPI_BAND, 1 << ARITHMETIC | 1 << BYTES),
        OPERATION(MPI_BOR, 1 << ARITHMETIC | 1 << BYTES),
        OPERATION(MPI_BXOR, 1 << ARITHMETIC | 1 << BYTES),
        OPERATION(MPI_MINLOC, 1 << PAIRS),
        OPERATION(MPI_MAXLOC, 1 << PAIRS),
        OPERATION(multiply_matrices, 1 << MATRICES),
        OPERATION(add_words, 1 << MATRICES),
#undef OPERATION
    };
    for (;;) {
        size_t i = (size_t)below(shared, sizeof all / sizeof *all);
        if (all[i].groups >> number->group & 1) {
            *name = all[i].name;
            return all[i].op;
        }
    }
}

static inline void write_real(unsigned char *to, int kind, double value)
{
    float single = (float)value;
    long double longer = value;
    if (kind == FLOAT)
        memcpy(to, &single, sizeof single);
    else if (kind == DOUBLE)
        memcpy(to, &value, sizeof value);
    else
        memcpy(to, &longer, 10); /* the rest of its 16 bytes is padding */
}

/* Replaces the random bytes of one element where not all of them will do. */
static inline void write_number(const number_t *number, MPI_Op op, draw_t *own, unsigned char *to)
{
    for (int v = 0; v < number->values; v++) {
        int kind = number->value[v].kind;
        unsigned char *at = to + number->value[v].at;
        int zero = number->group == ARITHMETIC && chance(own, 20);
        int index = number->group == PAIRS && (v == 1 || kind == INTEGER);
        long range = number->group == PAIRS ? 4 : 33, sign = below(own, 2) * 2 - 1;
        long factor = number->group == COMPLEX ? sign : sign * (1 << below(own, 3));
        if (kind == FLOAT || kind == DOUBLE || kind == LONG_DOUBLE)
            write_real(at, kind, (double)(op == MPI_PROD ? factor : below(own, range) - range / 2));
        else if (kind == TRUTH)
            *at = (unsigned char)below(own, 2);
        else if (zero || index) /* few different ones, so that there are ties */
            memset(at, zero ? 0 : (int)below(own, 3), (size_t)number->value[v].bytes);
#if defined(OPEN_MPI) || defined(MPICH_VERSION)
        /* Open MPI compares unsigned long as signed, MPICH 4.0 every unsigned type. */
        else if (op == MPI_MAX || op == MPI_MIN)
            at[number->value[v].bytes - 1] &= 0x7f;
#endif
    }
}

/* Makes equal what may differ between right results: padding, and the sign of zero. */
static inline void normalise(const number_t *number, MPI_Aint extent, unsigned char *element)
{
    unsigned char kept[64] = {0};
    if (number->group == MATRICES)
        return; /* gaps have to stay */
    for (int v = 0; v < number->values; v++) {
        int kind = number->value[v].kind, bytes = kind == LONG_DOUBLE ? 10 : number->value[v].bytes;
        unsigned char *from = element + number->value[v].at, *to = kept + number->value[v].at;
        const unsigned char minus_zero[16] = {[3] = kind == FLOAT ? 0x80 : 0, [7] = kind == DOUBLE ? 0x80 : 0,
                                              [9] = kind == LONG_DOUBLE ? 0x80 : 0};
        int real = kind == FLOAT || kind == DOUBLE || kind == LONG_DOUBLE;
        if (!real || memcmp(from, minus_zero, (size_t)bytes) != 0)
            memcpy(to, from, (size_t)bytes);
    }
    memcpy(element, kept, (size_t)extent);
}

#endif
