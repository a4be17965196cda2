#include "emulator/aclnn/probe.h"

#include "emulator/aclnn/op.h"

static aclError run_probe(const emu_run *run) {
    const emu_tensor *out = emu_arg(run, run->n_slots - 1);
    float *y = out->data;
    for (int64_t i = 0; i < out->view.numel; i++) {
        float sum = 0;
        for (int slot = 0; slot + 1 < run->n_slots; slot++) {
            for (int j = 0; j < run->n_tensors[slot]; j++) sum += ((const float *)emu_arg_at(run, slot, j)->data)[i];
        }
        y[i] = sum;
    }
    return ACL_SUCCESS;
}

static void check(emu_op *op, const char *name, const emu_view *v, const emu_view *out) {
    emu_op_dtype(op, name, v, EMU_DT(FLOAT));
    emu_op_contiguous(op, name, v);
    emu_op_same_shape(op, name, v, "out", out);
}

static aclnnStatus finish(emu_op *op) {
    return emu_op_finish(op, &(emu_op_plan){.kernel = run_probe, .workspace = 1024});
}

aclnnStatus tally_emu_probe_get_workspace_size(const aclTensor *a, const aclTensor *b, aclTensor *out,
                                               uint64_t *workspace_size, aclOpExecutor **executor) {
    emu_op op;
    emu_op_begin(&op, "tally_emu_probe", workspace_size, executor);
    const emu_view *av = emu_op_in(&op, "a", a), *bv = emu_op_in(&op, "b", b), *ov = emu_op_out(&op, "out", out);
    check(&op, "a", av, ov);
    check(&op, "b", bv, ov);
    emu_op_dtype(&op, "out", ov, EMU_DT(FLOAT));
    emu_op_contiguous(&op, "out", ov);
    return finish(&op);
}

EMU_PHASE_2(tally_emu_probe)

aclnnStatus tally_emu_probe_list_get_workspace_size(const aclTensorList *list, aclTensor *out, uint64_t *workspace_size,
                                                    aclOpExecutor **executor) {
    emu_op op;
    int n;
    emu_op_begin(&op, "tally_emu_probe_list", workspace_size, executor);
    const emu_view *lv = emu_op_in_list(&op, "list", list, &n), *ov = emu_op_out(&op, "out", out);
    for (int i = 0; i < n; i++) check(&op, "list", &lv[i], ov);
    emu_op_dtype(&op, "out", ov, EMU_DT(FLOAT));
    return finish(&op);
}

EMU_PHASE_2(tally_emu_probe_list)
