// One line of --requests: JSON to a request.
#ifndef TALLY_CMD_REQUEST_PARSE_H
#define TALLY_CMD_REQUEST_PARSE_H

#include <jansson.h>

#include "cmd/args.h"
#include "tally.h"

typedef struct request_defaults { // what a line that does not say otherwise means
    const tally_model *model;
    const options *o;
    const tally_logit_bias *bias; // of the options
    const char *template_text;    // NULL: the model's own
} request_defaults;

typedef struct parsed_request {
    tally_request request; // borrows from the fields below
    int64_t seed;
    int32_t *ids;           // owned (tally_free)
    tally_logit_bias *bias; // owned, or NULL
    const char **stops;     // owned array of strings of `root`, or NULL
    json_t *root;           // owned
} parsed_request;

// Unknown fields, wrong types and numbers out of range are named in *err, which begins with "line N:". On failure nothing is to
// be released.
tally_status request_parse(const request_defaults *d, const char *line, size_t len, size_t number, parsed_request *out,
                           tally_error *err);
void parsed_request_deinit(parsed_request *p);

#endif
