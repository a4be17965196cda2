// The rules the emulator enforces, one line each: id, the code a program sees when it breaks the rule, what the rule says.
//
// Where the documentation names a code for the mistake, that code is used. Misuse that hardware would silently turn into wrong
// numbers has no code of its own; the emulator reports it as 507055 (suspect device memory) when it is seen at a call, and the
// fault of the kernel, 507015, when it is seen while work runs. EMU_RULE_CALLER: the call site passes the code.
#ifndef TALLY_EMULATOR_CORE_RULES_H
#define TALLY_EMULATOR_CORE_RULES_H

#include "cann/acl_errors.h"

#define EMU_RULE_CALLER (-1)

#define EMU_RULES(X) \
    /* initialisation, devices, contexts */ \
    X(settings, ACL_ERROR_INVALID_PARAM, "the emulator's settings name what exists") \
    X(uninitialised, ACL_ERROR_UNINITIALIZE, "aclInit comes before every other call") \
    X(second_init, ACL_ERROR_REPEAT_INITIALIZE, "aclInit is called once") \
    X(second_finalize, ACL_ERROR_REPEAT_FINALIZE, "aclFinalize is called once") \
    X(bad_param, ACL_ERROR_RT_PARAM_INVALID, "arguments are within their documented range") \
    X(bad_device, ACL_ERROR_RT_INVALID_DEVICEID, "a device id is smaller than the number of devices") \
    X(no_context, ACL_ERROR_RT_CONTEXT_NULL, "a thread sets a device or a context before it uses one") \
    X(wrong_context, ACL_ERROR_RT_STREAM_CONTEXT, "streams and events are used in the context they were made in") \
    X(dead_handle, ACL_ERROR_RT_INVALID_HANDLE, "a handle is used between its creation and its destruction") \
    X(wrong_handle, ACL_ERROR_RT_INVALID_HANDLE, "a handle is of the type the call wants") \
    X(chip_feature, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the chip has the feature") \
    X(resource_limit, EMU_RULE_CALLER, "streams and events stay within the chip's number of them") \
    /* memory */ \
    X(out_of_memory, ACL_ERROR_RT_MEMORY_ALLOCATION, "the chip has the memory that is asked for") \
    X(host_pointer, ACL_ERROR_RT_PARAM_INVALID, "a device pointer is given where one is due") \
    X(device_pointer, ACL_ERROR_RT_PARAM_INVALID, "a host pointer is given where one is due") \
    X(use_after_free, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "device memory is used before it is freed") \
    X(out_of_bounds, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "a range of device memory lies within one allocation") \
    X(double_free, ACL_ERROR_RT_PARAM_INVALID, "memory is freed once") \
    X(bad_free, ACL_ERROR_RT_PARAM_INVALID, \
      "memory is freed by the address it was given at, by the function of its kind") \
    X(free_in_flight, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "memory is freed after the work that uses it has run") \
    X(host_free_in_flight, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, \
      "host memory of an asynchronous copy is freed after the copy") \
    X(copy_size, ACL_ERROR_RT_PARAM_INVALID, "a copy fits its destination") \
    X(copy_kind, ACL_ERROR_RT_PARAM_INVALID, "the kind of a copy says what its addresses say") \
    X(host_to_host_async, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "asynchronous copies have a device side") \
    X(peer_access, ACL_ERROR_RT_PARAM_INVALID, "memory of another device is used after peer access was enabled") \
    /* order */ \
    X(race, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "an event orders work of two streams on the same memory") \
    X(host_race, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, \
      "the host touches memory after it has synchronised with the work that uses it") \
    X(event_flag, EMU_RULE_CALLER, "an event is used for what its flags say") \
    X(event_rerecord, ACL_ERROR_RT_PARAM_INVALID, \
      "events recorded again while a wait is queued are made by aclrtCreateEventExWithFlag") \
    X(event_destroyed, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, \
      "an event is destroyed after the work that waits for it has run") \
    X(event_order, EMU_RULE_CALLER, "elapsed time is asked of two completed events, the first before the second") \
    X(stream_busy, ACL_ERROR_RT_STREAM_NOT_COMPLETE, "a stream is destroyed after its work has run") \
    X(deadlock, EMU_RULE_CALLER, "what a stream waits for is recorded some time") \
    X(timeout, EMU_RULE_CALLER, "work ends within the time given") \
    /* the device */ \
    X(device_lost, ACL_ERROR_RT_LOST_HEARTBEAT, "(injected) the device is there") \
    X(injected, EMU_RULE_CALLER, "(injected) nothing fails") \
    X(kernel_fault, ACL_ERROR_RT_AICORE_EXCEPTION, "a kernel reads and writes inside its tensors") \
    X(sticky_failure, EMU_RULE_CALLER, "a context stopped by a failure is not used further") \
    /* descriptors and executors */ \
    X(null_argument, ACLNN_ERR_PARAM_NULLPTR, "mandatory arguments are given") \
    X(bad_argument, ACLNN_ERR_PARAM_INVALID, \
      "dtype, rank, shape, format and attributes are documented for the operator") \
    X(dtype_chip, ACLNN_ERR_PARAM_INVALID, "the chip has the dtype") \
    X(operator_chip, ACLNN_ERR_INNER_FIND_KERNEL_ERROR, "the chip has the operator") \
    X(tiling, ACLNN_ERR_INNER_TILING_ERROR, "shapes that only tiling compares agree") \
    X(not_contiguous, ACLNN_ERR_PARAM_INVALID, "operators that forbid strides get contiguous tensors") \
    X(unaligned, ACLNN_ERR_PARAM_INVALID, "a tensor's data is 32-byte aligned") \
    X(dead_descriptor, ACLNN_ERR_INNER_NULLPTR, "a descriptor lives until phase 2 has returned") \
    X(double_destroy, ACLNN_ERR_PARAM_INVALID, "a descriptor is destroyed once") \
    X(list_element, ACLNN_ERR_PARAM_INVALID, "an element of a list is destroyed by the list") \
    X(executor_reused, ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, "an executor is launched once unless it is repeatable") \
    X(executor_wrong, ACLNN_ERR_INNER_NOT_TRANS_EXECUTOR, "phase 2 gets the executor of its own phase 1") \
    X(executor_repeatable, ACLNN_ERR_PARAM_INVALID, "an executor is made repeatable directly after phase 1") \
    X(executor_address, ACLNN_ERR_PARAM_INVALID, \
      "addresses are set on repeatable executors, by the index of an argument") \
    X(address_changed, ACLNN_ERR_PARAM_INVALID, "a tensor's address is not changed between phase 1 and phase 2") \
    X(workspace_small, ACLNN_ERR_PARAM_INVALID, "phase 2 gets the workspace that phase 1 asked for") \
    X(workspace_overlap, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "a workspace overlaps no tensor of its operator") \
    X(not_deterministic, ACL_ERROR_RT_PARAM_INVALID, "determinism is set before the first launch") \
    /* capture */ \
    X(capture_sync, ACL_ERROR_RT_STREAM_CAPTURED, "nothing is synchronised or queried while it is captured") \
    X(capture_event, ACL_ERROR_RT_EVENT_CAPTURED, \
      "an event recorded in a capture is not asked or waited for by the host") \
    X(capture_unsafe, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "calls that a capture's mode forbids wait for its end") \
    X(capture_task, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORTED, "only tasks that can be replayed are captured") \
    X(capture_default_stream, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "the default stream is not captured") \
    X(capture_twice, ACL_ERROR_RT_STREAM_CAPTURED, "a stream is captured by one capture at a time") \
    X(capture_none, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "a capture is ended after it has begun") \
    X(capture_wrong_stream, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, "a capture ends on the stream it began on") \
    X(capture_wrong_thread, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, \
      "a capture ends on the thread it began on, unless relaxed") \
    X(capture_unjoined, ACL_ERROR_RT_STREAM_UNJOINED, \
      "streams that joined a capture come back to its origin before its end") \
    X(capture_after_join, ACL_ERROR_RT_STREAM_UNJOINED, \
      "no task is issued on a stream after it came back to the origin") \
    X(capture_dependency, ACL_ERROR_RT_CAPTURE_DEPENDENCY, \
      "captured work waits only for work of the same capture or for external events") \
    X(capture_conflict, ACL_ERROR_RT_STREAM_CAPTURE_CONFLICT, "one capture does not wait for another") \
    X(capture_invalidated, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, \
      "a capture in which a call was refused is given up") \
    X(graph_buffer, ACL_ERROR_RT_MODEL_EXECUTE, "buffers baked into a graph live as long as the graph") \
    X(graph_busy, ACL_ERROR_RT_MODEL_RUNNING, "a graph is destroyed after its replays have run") \
    X(graph_state, ACL_ERROR_RT_PARAM_INVALID, "a graph is executed after its capture or build has ended") \
    X(group_state, ACL_ERROR_RT_TASK_GROUP_STATUS, \
      "task groups begin and end once, inside a capture; updates outside of one") \
    X(group_update, ACL_ERROR_RT_MODEL_UPDATE_FAILED, \
      "an update issues the operator that the group was captured with") \
    X(group_many, ACL_ERROR_RT_MODEL_UPDATE_FAILED, "a task group that is updated holds one operator") \
    X(update_race, ACL_ERROR_RT_SUSPECT_DEVICE_MEM, "an event orders an update against the replays of its graph")

typedef enum emu_rule {
#define EMU_RULE_ENUM(id, code, text) EMU_RULE_##id,
    EMU_RULES(EMU_RULE_ENUM)
#undef EMU_RULE_ENUM
        EMU_RULE_COUNT
} emu_rule;

const char *emu_rule_id(emu_rule rule);
const char *emu_rule_text(emu_rule rule);
int emu_rule_code(emu_rule rule); // EMU_RULE_CALLER where the call site decides

#endif
