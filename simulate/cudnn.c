/* The functions of cuDNN whose answer PyTorch looks at: versions, the plans of its graph interface, and
 * recurrent networks with the sizes of their buffers. Everything else is made by library.py and returns 0. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lacks.h"

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* Programs compare it with the one that they were built with: VRAMTRACE_STANDIN_CUDNN=9.26.0, else what
 * PyTorch 2.11 has. */
static int version_part(int part)
{
    const char *text = getenv("VRAMTRACE_STANDIN_CUDNN");
    int parts[3] = {9, 19, 0};
    if (text != NULL)
        sscanf(text, "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
    return part >= 0 && part < 3 ? parts[part] : 0;
}
size_t cudnnGetVersion(void)
{
    return (size_t)(version_part(0) * 10000 + version_part(1) * 100 + version_part(2));
}
int cudnnGetProperty(int part, int *value) /* XLA compares, too */
{
    *value = version_part(part);
    return 0;
}
/* The operations of its graph interface tell what a plan is for. */
int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
    enum {
        CONVOLUTION_FORWARD = 10,
        CONVOLUTION_BACKWARD_DATA = 12,
        MATMUL = 19,
        SDPA_FORWARD = 41,
        SDPA_BACKWARD = 43
    };
    if (type >= CONVOLUTION_FORWARD && type <= CONVOLUTION_BACKWARD_DATA)
        STANDIN_LACKS_ONCE("workspaces of cuDNN's convolutions");
    else if (type == MATMUL || type == SDPA_FORWARD || type == SDPA_BACKWARD)
        STANDIN_LACKS_ONCE("workspaces of cuDNN's attention");
    *descriptor = calloc(1, 64);
    return *descriptor ? 0 : 2000; /* CUDNN_STATUS_BAD_PARAM and its kin */
}

/* One heuristic result, engines of any number that cudnn-frontend names, and plans without workspace of their
 * own. PyTorch's attention goes through cudnn-frontend, which adds what the graph of the backward pass needs
 * between its kernels: dQ in fp32 and the sums of the softmax's rows. What cuDNN's own engines ask beyond
 * that is not published: too low by that much. */
int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t requested, int64_t *count,
                             void *values)
{
    enum { BOOLEAN = 2, INT64 = 3, DOUBLE = 5, VOID_POINTER = 6, DESCRIPTOR = 15 };
    enum { GRAPHS_ENGINES = 802, ENGINES = 1024 };
    (void)descriptor;
    if (count)
        *count = 1;
    if (values && requested > 0 && type != DESCRIPTOR)
        memset(values, 0,
               type == INT64 || type == DOUBLE || type == VOID_POINTER ? 8
               : type == BOOLEAN                                       ? 1
                                                                       : 4);
    if (attribute == GRAPHS_ENGINES && values && requested > 0)
        *(int64_t *)values = ENGINES;
    return 0;
}

/* Tensor descriptors remember what they were told: PyTorch reads back those that cudnnGetRNNWeightParams
 * filled. */
enum { MOST_DIMENSIONS = 8 };
struct tensor {
    int type, dimensions, size[MOST_DIMENSIONS], stride[MOST_DIMENSIONS];
};

int cudnnCreateTensorDescriptor(struct tensor **descriptor)
{
    *descriptor = calloc(1, sizeof(**descriptor));
    return *descriptor ? 0 : 2000; /* CUDNN_STATUS_BAD_PARAM and its kin */
}

int cudnnSetTensorNdDescriptor(struct tensor *descriptor, int type, int dimensions, const int *size,
                               const int *stride)
{
    *descriptor = (struct tensor){.type = type, .dimensions = dimensions};
    for (int i = 0; i < dimensions && i < MOST_DIMENSIONS; i++) {
        descriptor->size[i] = size[i];
        descriptor->stride[i] = stride[i];
    }
    return 0;
}

int cudnnGetTensorNdDescriptor(const struct tensor *descriptor, int requested, int *type, int *dimensions,
                               int *size, int *stride)
{
    *type = descriptor->type;
    *dimensions = descriptor->dimensions;
    for (int i = 0; i < requested && i < MOST_DIMENSIONS; i++) {
        size[i] = descriptor->size[i];
        stride[i] = descriptor->stride[i];
    }
    return 0;
}

/* Recurrent networks */
enum { RELU, TANH, LSTM, GRU };
struct network {
    int cell, bias, directions, type, inputs, hidden, outputs, layers;
};
struct sequences {
    int steps, batch;
};

static const struct {
    int gates;
    int kept;    /* values of each hidden unit and step that the backward pass needs */
    int current; /* values of each hidden unit that the work of one step needs beyond two for each gate */
} cells[] = {[RELU] = {1, 1, 1}, [TANH] = {1, 1, 1}, [LSTM] = {4, 5, 3}, [GRU] = {3, 6, 2}};

static size_t bytes_of(int type)
{
    enum { FLOAT, DOUBLE, HALF, BFLOAT16 = 9 };
    return type == DOUBLE ? 8 : type == HALF || type == BFLOAT16 ? 2 : 4;
}

int cudnnCreateRNNDescriptor(struct network **network)
{
    *network = calloc(1, sizeof(**network));
    return *network ? 0 : 2000;
}

int cudnnSetRNNDescriptor_v8(struct network *network, int algorithm, int cell, int bias, int direction,
                             int input_mode, int type, int arithmetic, int mathematics, int inputs,
                             int hidden, int outputs, int layers, void *dropout, unsigned flags)
{
    (void)algorithm;
    (void)input_mode;
    (void)arithmetic;
    (void)mathematics;
    (void)dropout;
    (void)flags;
    if (cell < RELU || cell > GRU)
        return 2000;
    *network = (struct network){cell, bias, 1 + (direction == 1), type, inputs, hidden, outputs, layers};
    return 0;
}

int cudnnCreateRNNDataDescriptor(struct sequences **sequences)
{
    *sequences = calloc(1, sizeof(**sequences));
    return *sequences ? 0 : 2000;
}

int cudnnSetRNNDataDescriptor(struct sequences *sequences, int type, int layout, int steps, int batch,
                              int width, const int *lengths, void *padding)
{
    (void)type;
    (void)layout;
    (void)width;
    (void)lengths;
    (void)padding;
    *sequences = (struct sequences){steps, batch};
    return 0;
}

static bool is_projected(const struct network *network)
{
    return network->outputs != network->hidden;
}

/* Elements of the matrices of one direction of one layer. */
static size_t inputs_of(const struct network *network, int layer)
{
    return layer == 0 ? (size_t)network->inputs : (size_t)network->outputs * (size_t)network->directions;
}
static size_t matrices_of(const struct network *network, int layer)
{
    size_t hidden = (size_t)network->hidden, outputs = (size_t)network->outputs;
    return (size_t)cells[network->cell].gates * hidden * (inputs_of(network, layer) + outputs) +
           (is_projected(network) ? hidden * outputs : 0);
}
static size_t all_matrices(const struct network *network)
{
    size_t all = 0;
    for (int layer = 0; layer < network->layers; layer++)
        all += matrices_of(network, layer) * (size_t)network->directions;
    return all;
}
static size_t biases_of(const struct network *network)
{
    static const int biases[] = {0, 1, 2, 1}; /* none, of the input, both, of the recurrence */
    return (size_t)biases[network->bias & 3] * (size_t)cells[network->cell].gates * (size_t)network->hidden;
}

int cudnnGetRNNWeightSpaceSize(void *handle, const struct network *network, size_t *bytes)
{
    (void)handle;
    *bytes =
        (all_matrices(network) + biases_of(network) * (size_t)network->layers * (size_t)network->directions) *
        bytes_of(network->type);
    return 0;
}

static void describe(struct tensor *descriptor, int type, size_t rows, size_t columns)
{
    *descriptor = (struct tensor){.type = type,
                                  .dimensions = 3,
                                  .size = {1, (int)rows, (int)columns},
                                  .stride = {(int)(rows * columns), (int)columns, 1}};
}

/* All matrices, layer by layer and direction by direction, then all biases. Of each: those of the input by
 * gate, those of the recurrence by gate; at last the projection. What a network does not have gets no
 * address. */
int cudnnGetRNNWeightParams(void *handle, const struct network *network, int pseudo_layer, size_t bytes,
                            const void *weights, int part, struct tensor *matrix, void **matrix_address,
                            struct tensor *bias, void **bias_address)
{
    (void)handle;
    (void)bytes;
    int gates = cells[network->cell].gates, layer = pseudo_layer / network->directions;
    size_t hidden = (size_t)network->hidden, outputs = (size_t)network->outputs;
    size_t inputs = inputs_of(network, layer), at = 0;
    for (int before = 0; before < pseudo_layer; before++)
        at += matrices_of(network, before / network->directions);
    size_t rows = hidden, columns = part < gates ? inputs : outputs;
    if (part == 2 * gates) {
        at += (size_t)gates * hidden * (inputs + outputs);
        rows = outputs, columns = hidden;
    } else {
        at += part < gates ? (size_t)part * hidden * inputs
                           : (size_t)gates * hidden * inputs + (size_t)(part - gates) * hidden * outputs;
    }
    bool has_matrix = part < 2 * gates || (part == 2 * gates && is_projected(network));
    size_t element = bytes_of(network->type);
    if (matrix && has_matrix)
        describe(matrix, network->type, rows, columns);
    if (matrix_address)
        *matrix_address = has_matrix ? (char *)weights + at * element : NULL;

    bool has_bias = part < 2 * gates && biases_of(network) == (size_t)(2 * gates) * hidden;
    at = all_matrices(network) + biases_of(network) * (size_t)pseudo_layer + (size_t)part * hidden;
    if (bias && has_bias)
        describe(bias, network->type, hidden, 1);
    if (bias_address)
        *bias_address = has_bias ? (char *)weights + at * element : NULL;
    return 0;
}

/* A model, from what cuDNN answered on a P100 (2017) for four layers of 320 units over 123 inputs in fp32,
 * batch times steps = 25,000 (pytorch/pytorch issue 2895): reserve 736,000,000 B (LSTM) and 864,000,000 B
 * (GRU), workspace 17,730,560 and 13,169,920. Reserve, for training only: of each step and layer the gates
 * and what else `cells` says, and between layers their outputs. Workspace: a copy of all matrices, and of
 * each layer for the batch two values for each gate and `cells`' few more. These four are met to the byte if
 * the batch was 100, and the memory that the issue tells of the plain network agrees. Unknown: later
 * releases, the persistent kernels that PyTorch takes for small or half-precision networks, projections, the
 * share of dropout, whether inference needs less. */
int cudnnGetRNNTempSpaceSizes(void *handle, const struct network *network, int training,
                              const struct sequences *sequences, size_t *workspace, size_t *reserve)
{
    (void)handle;
    size_t element = bytes_of(network->type), layers = (size_t)network->layers;
    size_t units = (size_t)network->hidden * (size_t)network->directions;
    size_t between = (size_t)network->outputs * (size_t)network->directions;
    size_t gates = (size_t)cells[network->cell].gates, batch = (size_t)sequences->batch;
    if (workspace)
        *workspace = element * (all_matrices(network) +
                                layers * batch * units * (2 * gates + (size_t)cells[network->cell].current));
    if (reserve)
        *reserve = !training ? 0
                             : element * batch * (size_t)sequences->steps *
                                   (layers * units * (size_t)cells[network->cell].kept +
                                    (layers - 1) * between + (is_projected(network) ? layers * units : 0));
    return 0;
}
