// Weights in FRACTAL_NZ (common.h): conversion and sizes.
#include "emulator/aclnn/descriptor.h"
#include "emulator/aclnn/ops/common.h"

#include <stdlib.h>
#include <string.h>

static void convert(const struct em_view *src, char *dst, int64_t elements) {
    int64_t size = (int64_t)em_dtype_size(src->dtype), at[EM_RANK];
    struct em_view nz = *src;
    nz.nz = true, nz.nz_turned = false;
    memset(dst, 0, (size_t)(elements * size));
    if (src->rank == 2 && !src->nz && src->stride[1] == 1) { // row by row, c0 elements at once
        int64_t c0 = 32 / size, rows = (src->dim[0] + 15) / 16 * 16, c = src->dim[1];
        for (int64_t r = 0; r < src->dim[0]; r++) {
            const char *row = src->p + r * src->stride[0] * size;
            for (int64_t k = 0; k < c; k += c0)
                memcpy(dst + (k / c0 * rows + r) * c0 * size, row + k * size,
                       (size_t)((c - k < c0 ? c - k : c0) * size));
        }
        return;
    }
    for (int64_t i = 0; i < em_count(src); i++) {
        em_unravel(i, src->rank, src->dim, at);
        memcpy(dst + em_offset(&nz, at) * size, src->p + em_offset(src, at) * size, (size_t)size);
    }
}

static aclError run_in_place(const emu_run *run) {
    struct em_view v = op_view(run, 0);
    v.nz = v.nz_turned = false;
    int64_t size = (int64_t)em_dtype_size(v.dtype), n = op_nz_elements(v.dim, v.rank, 32 / size);
    char *copy = malloc((size_t)(n * size));
    if (!copy) return op_done(run, EM_NO_MEMORY);
    convert(&v, copy, n);
    memcpy(v.p, copy, (size_t)(n * size));
    free(copy);
    return ACL_SUCCESS;
}

aclnnStatus aclnnTransMatmulWeightGetWorkspaceSize(aclTensor *mmWeightRef, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnTransMatmulWeight", workspaceSize, executor);
    const emu_view *w = emu_op_inout(&op, "mmWeightRef", mmWeightRef);
    emu_op_dtype(&op, "mmWeightRef", w, EMU_HALVES | EMU_DT(INT8));
    emu_op_rank(&op, "mmWeightRef", w, 2, 6);
    emu_op_not_empty(&op, "mmWeightRef", w);
    if (emu_op_ok(&op)) // also with strict=off: a copy inside would have no room for the padding
        emu_op_need_as(&op, emu_view_contiguous(w), EMU_RULE_not_contiguous, "mmWeightRef has strides");
    op_no_nz(&op, "mmWeightRef", w);
    uint64_t bytes = emu_op_ok(&op) ? (uint64_t)w->numel * 2 : 0;
    // The storage shape need not tell of the padding, as programs give that of the matrix; the block must have it.
    if (emu_op_ok(&op)) emu_op_span(&op, w, op_nz_elements(w->dim, w->rank, 32 * 8 / emu_dtype_bits(w->dtype)));
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_in_place, .workspace = bytes});
}
EMU_PHASE_2(aclnnTransMatmulWeight)

aclnnStatus aclnnCalculateMatmulWeightSizeV2(const aclIntArray *tensorShape, aclDataType dataType,
                                             uint64_t *weightTensorSize) {
    uint64_t n = 0;
    if (!tensorShape || !weightTensorSize) return ACLNN_ERR_PARAM_NULLPTR;
    aclnnStatus rc = aclGetIntArraySize(tensorShape, &n); // refuses a dead descriptor
    if (rc) return rc;
    if (n < 2 || n > 6) return ACLNN_ERR_PARAM_INVALID;
    if (dataType != ACL_FLOAT16 && dataType != ACL_BF16 && dataType != ACL_INT8) return ACLNN_ERR_PARAM_INVALID;
    *weightTensorSize = (uint64_t)op_nz_elements(tensorShape->v, (int)n, dataType == ACL_INT8 ? 32 : 16);
    return 0;
}

aclnnStatus aclnnCalculateMatmulWeightSize(const aclIntArray *tensorShape, uint64_t *weightTensorSize) {
    return aclnnCalculateMatmulWeightSizeV2(tensorShape, ACL_FLOAT16, weightTensorSize);
}

// ---- NpuFormatCast ---------------------------------------------------------------------------------------------------

static aclError run_cast(const emu_run *run) {
    struct em_view src = op_view(run, 0), dst = op_view(run, 1), plain = src;
    int64_t size = (int64_t)em_dtype_size(src.dtype);
    if (dst.nz) {
        convert(&src, dst.p, op_nz_elements(src.dim, src.rank, 32 / size));
        return ACL_SUCCESS;
    }
    plain.nz = true, plain.nz_turned = false;
    for (int64_t i = 0; i < em_count(&dst); i++) { // back to ND
        int64_t at[EM_RANK];
        em_unravel(i, dst.rank, dst.dim, at);
        memcpy(dst.p + em_offset(&dst, at) * size, src.p + em_offset(&plain, at) * size, (size_t)size);
    }
    return ACL_SUCCESS;
}

aclnnStatus aclnnNpuFormatCastGetWorkspaceSize(const aclTensor *src, aclTensor *dst, WS) {
    emu_op op;
    emu_op_begin(&op, "aclnnNpuFormatCast", workspaceSize, executor);
    const emu_view *s = emu_op_in(&op, "src", src), *d = emu_op_out(&op, "dst", dst);
    emu_op_dtype(&op, "src", s, EMU_FLOATS | EMU_DT(INT8));
    emu_op_same_dtype(&op, "dst", d, "src", s);
    emu_op_rank(&op, "src", s, 2, 6);
    emu_op_same_shape(&op, "dst", d, "src", s);
    if (emu_op_ok(&op) && s->format == ACL_FORMAT_FRACTAL_NZ)
        emu_op_need_as(&op, emu_view_contiguous(s), EMU_RULE_not_contiguous, "src is FRACTAL_NZ with strides");
    emu_op_contiguous(&op, "src", s);
    if (emu_op_ok(&op)) {
        bool to = d->format == ACL_FORMAT_FRACTAL_NZ, from = s->format == ACL_FORMAT_FRACTAL_NZ;
        emu_op_need(&op, to != from, "one of src and dst is FRACTAL_NZ, the other ND");
        op_need_nz(&op, to ? "dst" : "src", to ? d : s, false);
    }
    return emu_op_finish(&op, &(emu_op_plan){.kernel = run_cast, .workspace = 16 * 1024});
}
EMU_PHASE_2(aclnnNpuFormatCast)

aclnnStatus aclnnNpuFormatCastCalculateSizeAndFormat(const aclTensor *srcTensor, int dstFormat, int additionalDtype,
                                                     int64_t **dstShape, uint64_t *dstShapeSize, int *actualFormat) {
    int64_t *dims = NULL;
    uint64_t n = 0;
    aclDataType type;
    (void)additionalDtype; // of quantised weights
    if (!srcTensor || !dstShape || !dstShapeSize || !actualFormat) return ACLNN_ERR_PARAM_NULLPTR;
    if (dstFormat != ACL_FORMAT_FRACTAL_NZ && dstFormat != ACL_FORMAT_ND) return ACLNN_ERR_PARAM_INVALID;
    aclnnStatus rc = aclGetViewShape(srcTensor, &dims, &n);
    if (!rc) rc = aclGetDataType(srcTensor, &type);
    size_t size = rc ? 0 : em_dtype_size((int)type);
    if (!rc && (n < 2 || n > 6 || !size)) rc = ACLNN_ERR_PARAM_INVALID;
    int64_t *shape = rc ? NULL : malloc((n + 2) * sizeof *shape);
    if (!rc && !shape) rc = ACLNN_ERR_INNER_NULLPTR;
    if (!rc) {
        int64_t c0 = 32 / (int64_t)size;
        memcpy(shape, dims, n * sizeof *shape);
        *dstShapeSize = n;
        if (dstFormat == ACL_FORMAT_FRACTAL_NZ) {
            int64_t r = dims[n - 2], c = dims[n - 1];
            shape[n - 2] = (c + c0 - 1) / c0, shape[n - 1] = (r + 15) / 16, shape[n] = 16, shape[n + 1] = c0;
            *dstShapeSize = n + 2;
        }
        *dstShape = shape;
        *actualFormat = dstFormat;
    }
    free(dims);
    return rc;
}
