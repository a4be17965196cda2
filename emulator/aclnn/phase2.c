// Phase 2, and what may be done to an executor between the phases.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/aclnn/executor.h"
#include "emulator/core/graph.h"
#include "emulator/core/memory.h"
#include "emulator/core/task.h"

static void destroy(aclOpExecutor *e) {
    emu_body_drop(e->body);
    emu_object_destroy(e);
}

static int need_executor(const aclOpExecutor *e, const char *name) {
    if (!e) return emu_fail(EMU_RULE_null_argument, "the executor is NULL");
    emu_look look = emu_object_look(e, EMU_EXECUTOR);
    if (look == EMU_DESTROYED) {
        return emu_fail(EMU_RULE_executor_reused,
                        "executor %p was launched or destroyed before, and was not made repeatable", (const void *)e);
    }
    if (look != EMU_ALIVE) return emu_fail(EMU_RULE_executor_wrong, "%p is no executor", (const void *)e);
    if (!name || strcmp(e->body->name, name) == 0) return 0;
    return emu_fail(EMU_RULE_executor_wrong, "%s is launched with an executor of %s", name, e->body->name);
}

static int check_workspace(const emu_body *b, void *workspace, uint64_t size, int device) {
    if (size < b->workspace) {
        return emu_fail(EMU_RULE_workspace_small, "a workspace of %" PRIu64 " bytes where phase 1 asked for %" PRIu64,
                        size, b->workspace);
    }
    if (!b->workspace) return 0;
    if (!workspace)
        return emu_fail(EMU_RULE_null_argument, "the workspace is NULL, but phase 1 asked for %" PRIu64 " bytes",
                        b->workspace);
    if ((uintptr_t)workspace % 32)
        return emu_fail(EMU_RULE_unaligned, "the workspace %p is not 32-byte aligned", workspace);
    return emu_range_need((uint64_t)(uintptr_t)workspace, b->workspace, device, "the workspace");
}

static int check_address(const emu_slot *slot, const emu_view *v, const void *address, int device) {
    uint64_t first, size;
    if (!emu_view_bytes(v, &first, &size)) return 0;
    if (!address) return emu_fail(EMU_RULE_null_argument, "%s has no memory", slot->name);
    if ((uintptr_t)address % 32 && !emu()->config.lenient)
        return emu_fail(EMU_RULE_unaligned, "%s at %p is not 32-byte aligned", slot->name, address);
    return emu_range_need((uint64_t)(uintptr_t)address + first, size, device, slot->name);
}

static int check_alive(const void *handle, emu_kind kind, const char *name) {
    if (emu_object_look(handle, kind) == EMU_ALIVE) return 0;
    return emu_fail(EMU_RULE_dead_descriptor, "the descriptor of %s was destroyed before phase 2", name);
}

// What phase 1 was given must be there until phase 2 returns; to launch an executor again it is not needed.
static int check_descriptors(const aclOpExecutor *e) {
    const emu_body *b = e->body;
    int code = 0;
    for (int i = 0; i < b->n_slots && !e->launched; i++) {
        for (int j = 0; j < b->slot[i].n; j++) {
            if ((code = check_alive(e->sources[b->slot[i].first + j], EMU_TENSOR, b->slot[i].name))) return code;
        }
    }
    for (const emu_held *h = e->launched ? NULL : e->held; h && !code; h = h->next)
        code = check_alive(h->handle, h->kind, h->name);
    return code;
}

// The addresses of the tensors, as they are now: they must be those of phase 1 unless they were set on the executor.
static int check_tensors(const aclOpExecutor *e, emu_launch *l, int device) {
    const emu_body *b = e->body;
    for (int i = 0; i < b->n_slots; i++) {
        const emu_slot *slot = &b->slot[i];
        for (int j = 0; j < slot->n; j++) {
            int at = slot->first + j, code;
            const void *address = e->addresses[at];
            if (!e->repeatable && e->sources[at]->data != address && !e->rebound) {
                return emu_fail(EMU_RULE_address_changed, "the address of %s was changed between phase 1 and phase 2",
                                slot->name);
            }
            if ((code = check_address(slot, &slot->views[j], address, device))) return code;
            l->addresses[at] = (uint64_t)(uintptr_t)address;
        }
    }
    return 0;
}

// Hardware often leaves the workspace it asked for alone, so programs that break this rule go unnoticed; strict=off counts and traces
// it, and lets the operator work in memory of its own.
static int check_overlap(emu_task *t) {
    const emu_range *w = &t->ranges[t->n_ranges - 1];
    for (int i = 0; t->launch->workspace_size && i + 1 < t->n_ranges; i++) {
        if (w->lo >= t->ranges[i].hi || t->ranges[i].lo >= w->hi) continue;
        int code = emu_fail(EMU_RULE_workspace_overlap, "the workspace overlaps %s", t->ranges[i].what);
        if (!emu()->config.lenient) return code;
        t->launch->private_workspace = true;
        t->n_ranges--;
        return 0;
    }
    return 0;
}

static emu_launch *make_launch(aclOpExecutor *e, void *workspace, const emu_stream *s) {
    emu_launch *l = calloc(1, sizeof *l + (size_t)(e->body->n_tensors + 1) * sizeof(uint64_t));
    if (!l) return NULL;
    *l = (emu_launch){.references = 1, .body = e->body, .workspace = workspace, .workspace_size = e->body->workspace};
    e->body->references++;
    l->varies = (e->body->varies_on & EMU_ON(emu()->chip->family)) && !emu()->sys_param[ACL_OPT_DETERMINISTIC] &&
                !s->context->sys_param[ACL_OPT_DETERMINISTIC];
    return l;
}

static int submit(aclOpExecutor *e, void *workspace, emu_stream *s) {
    emu_state *g = emu();
    emu_launch *l = make_launch(e, workspace, s);
    if (!l) return emu_fail_as(ACLNN_ERR_RUNTIME_ERROR, EMU_RULE_out_of_memory, "no memory for a launch");
    int code = check_descriptors(e);
    if (!code) code = check_tensors(e, l, s->context->device);
    if (!code && emu_inject(&g->n_launch, g->config.fail_launch)) {
        code =
            emu_fail_as(ACLNN_ERR_RUNTIME_ERROR, EMU_RULE_injected, "injected: launch %" PRIu64 " fails", g->n_launch);
    }
    if (code) {
        emu_launch_drop(l);
        return code;
    }
    g->launches++;
    emu_task *t = emu_launch_task(s, l);
    if (!t) return ACLNN_ERR_RUNTIME_ERROR;
    if ((code = check_overlap(t))) {
        emu_task_free(t);
        return code;
    }
    if (!s->updated) return emu_task_submit(t);
    t->launch = NULL;
    emu_task_free(t);
    return emu_group_issue(s, l);
}

static int launch(const char *name, void *workspace, uint64_t size, aclOpExecutor *e, aclrtStream stream) {
    int code = emu_need_init();
    if (code || (code = need_executor(e, name))) return code;
    emu_stream *s = emu_need_stream(stream, &code);
    if (s && !(code = check_workspace(e->body, workspace, size, s->context->device))) code = submit(e, workspace, s);
    e->launched = true;
    if (!e->repeatable) destroy(e);
    return code;
}

aclnnStatus emu_op_launch(const char *name, void *workspace, uint64_t workspace_size, aclOpExecutor *executor,
                          aclrtStream stream) {
    emu_enter(name, "phase 2, workspace %p of %" PRIu64 ", executor %p, stream %p", workspace, workspace_size,
              (void *)executor, stream);
    return emu_leave(launch(name, workspace, workspace_size, executor, stream));
}

// ---- executors ----
static int make_repeatable(aclOpExecutor *e) {
    int code = need_executor(e, NULL);
    if (code || (code = emu_call_fails())) return code;
    if (e->launched || e->rebound)
        return emu_fail(EMU_RULE_executor_repeatable, "%s: the executor was used already", e->body->name);
    if (e->body->not_repeatable)
        return emu_fail(EMU_RULE_executor_repeatable, "%s copies from the host inside and cannot be repeated",
                        e->body->name);
    e->repeatable = true;
    return 0;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
    emu_enter("aclSetAclOpExecutorRepeatable", "%p", (void *)executor);
    return emu_leave(make_repeatable(executor));
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
    emu_enter("aclDestroyAclOpExecutor", "%p", (void *)executor);
    int code = need_executor(executor, NULL);
    if (!code) destroy(executor);
    return emu_leave(code);
}

// Index counts the arguments of an access: all inputs (or outputs, or both) that were given, in order. dynamic: the relative-th
// tensor of a list argument.
static int set_address(aclOpExecutor *e, int access, size_t index, size_t relative, bool dynamic, void *address) {
    int code = need_executor(e, NULL);
    if (code || (code = emu_call_fails())) return code;
    if (!e->repeatable) return emu_fail(EMU_RULE_executor_address, "%s: the executor is not repeatable", e->body->name);
    size_t at = 0;
    for (int i = 0; i < e->body->n_slots; i++) {
        const emu_slot *slot = &e->body->slot[i];
        if (!(slot->access & access) || slot->n == 0) continue;
        if (at++ != index) continue;
        if (slot->is_list != dynamic || relative >= (size_t)slot->n) break;
        e->addresses[slot->first + (int)relative] = address;
        e->rebound = true;
        return 0;
    }
    return emu_fail(EMU_RULE_executor_address, "%s has no argument %zu (tensor %zu of it) of that kind", e->body->name,
                    index, relative);
}

#define EMU_SET_ADDRESS(function, access) \
    aclnnStatus function(aclOpExecutor *executor, size_t index, aclTensor *tensor, void *address) { \
        emu_enter(#function, "%p, %zu, %p, %p", (void *)executor, index, (void *)tensor, address); \
        return emu_leave(set_address(executor, access, index, 0, false, address)); \
    }
#define EMU_SET_DYNAMIC(function, access) \
    aclnnStatus function(aclOpExecutor *executor, size_t ir_index, size_t relative_index, aclTensorList *list, \
                         void *address) { \
        emu_enter(#function, "%p, %zu, %zu, %p, %p", (void *)executor, ir_index, relative_index, (void *)list, \
                  address); \
        return emu_leave(set_address(executor, access, ir_index, relative_index, true, address)); \
    }

EMU_SET_ADDRESS(aclSetInputTensorAddr, EMU_READS)
EMU_SET_ADDRESS(aclSetOutputTensorAddr, EMU_WRITES)
EMU_SET_ADDRESS(aclSetTensorAddr, EMU_READS | EMU_WRITES)
EMU_SET_ADDRESS(AclSetInputTensorAddr, EMU_READS)
EMU_SET_ADDRESS(AclSetOutputTensorAddr, EMU_WRITES)
EMU_SET_ADDRESS(AclSetTensorAddr, EMU_READS | EMU_WRITES)
EMU_SET_DYNAMIC(aclSetDynamicInputTensorAddr, EMU_READS)
EMU_SET_DYNAMIC(aclSetDynamicOutputTensorAddr, EMU_WRITES)
EMU_SET_DYNAMIC(aclSetDynamicTensorAddr, EMU_READS | EMU_WRITES)
EMU_SET_DYNAMIC(AclSetDynamicInputTensorAddr, EMU_READS)
EMU_SET_DYNAMIC(AclSetDynamicOutputTensorAddr, EMU_WRITES)
EMU_SET_DYNAMIC(AclSetDynamicTensorAddr, EMU_READS | EMU_WRITES)
