#include "emulator/aclnn/probe.h"

#include "emulator/aclnn/op.h"

static aclError run_probe(const emu_run *run) {
    const emu_tensor *out = emu_arg(run, run->n_slots - 1);
    float *y = out->data, *scratch = run->workspace; // a running sum, so that the workspace is used
    for (int64_t i = 0; i < out->view.numel; i++) {
        float sum = 0;
        for (int slot = 0; slot + 1 < run->n_slots; slot++) {
            int n = run->n_tensors[slot], first = (int)(run->perturb / 2 % (uint64_t)n);
            for (int j = 0; j < n; j++) sum += ((const float *)emu_arg_at(run, slot, (first + j) % n)->data)[i];
        }
        *scratch = sum;
        y[i] = *scratch;
    }
    return ACL_SUCCESS;
}

static void check(emu_op *op, const char *name, const emu_view *v, const emu_view *out) {
    emu_op_dtype(op, name, v, EMU_DT(FLOAT));
    emu_op_contiguous(op, name, v);
    emu_op_same_shape(op, name, v, "out", out);
}

static aclnnStatus finish(emu_op *op, unsigned varies_on) {
    return emu_op_finish(op, &(emu_op_plan){.kernel = run_probe, .workspace = 1024, .varies_on = varies_on});
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
    return finish(&op, 0);
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
    return finish(&op, EMU_ON(EMU_A2));
}

EMU_PHASE_2(tally_emu_probe_list)
