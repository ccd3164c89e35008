// One convolution in oneDNN, behind a C interface for `onednn.py`.
//
// The primitive chooses its own layouts (format_tag::any). What has to be reordered for it is
// reordered in every run, or once beforehand, as the protocol says.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "dnnl.hpp"

namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Dims = memory::dims;

// Which reorders belong to a run. The order of the values is that of `REORDERS` in onednn.py.
enum Reorders : int { kAll = 0, kImagesOnly = 1, kNone = 2 };

struct Step {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
};

struct Convolution {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory output, chosen_output;
  std::vector<Step> steps;
  std::string implementation;

  static Step reorder(memory& from, memory& to) {
    return {dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
  }

  void run(const Step& step) { step.primitive.execute(stream, step.arguments); }

  // The operand in the layout that the primitive wants: itself if it has that already.
  memory as(const memory::desc& wanted, memory& given, bool timed) {
    if (given.get_desc() == wanted) return given;
    memory reordered(wanted, engine);
    Step step = reorder(given, reordered);
    if (timed) {
      steps.push_back(step);
    } else {
      run(step);
      stream.wait();
    }
    return reordered;
  }

  // `sizes`: n, k, h, w, c, r, s, input rows, input columns, strides (2), dilations (2).
  Convolution(const int64_t* z, bool channels_last, Reorders reorders, float* input_data,
              float* weights_data, float* output_data) {
    const auto f32 = memory::data_type::f32;
    const Dims in{z[0], z[4], z[7], z[8]}, filter{z[1], z[4], z[5], z[6]},
        out{z[0], z[1], z[2], z[3]}, strides{z[9], z[10]}, padding{0, 0},
        dilations{z[11] - 1, z[12] - 1};
    const Tag images = channels_last ? Tag::nhwc : Tag::nchw;
    memory input({in, f32, images}, engine, input_data);
    memory weights({filter, f32, channels_last ? Tag::hwio : Tag::oihw}, engine, weights_data);
    output = memory({out, f32, images}, engine, output_data);

    const memory::desc any_in(in, f32, Tag::any), any_filter(filter, f32, Tag::any),
        any_out(out, f32, Tag::any);
    dnnl::convolution_forward::primitive_desc chosen(
        engine, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, any_in,
        any_filter, any_out, strides, dilations, padding, padding);
    implementation = chosen.impl_info_str();

    memory packed = as(chosen.weights_desc(), weights, reorders == kAll);
    memory source = as(chosen.src_desc(), input, reorders != kNone);
    const bool direct = chosen.dst_desc() == output.get_desc();
    chosen_output = direct ? output : memory(chosen.dst_desc(), engine);
    steps.push_back({dnnl::convolution_forward(chosen),
                     {{DNNL_ARG_SRC, source},
                      {DNNL_ARG_WEIGHTS, packed},
                      {DNNL_ARG_DST, chosen_output}}});
    if (!direct && reorders != kNone) steps.push_back(reorder(chosen_output, output));
  }

  void run() {
    for (const Step& step : steps) run(step);
    stream.wait();
  }

  // The result in the caller's layout, where runs leave it in the primitive's own.
  void collect() {
    if (chosen_output.get_data_handle() == output.get_data_handle()) return;
    run(reorder(chosen_output, output));
    stream.wait();
  }
};

}  // namespace

extern "C" {

// Python's C interface, as far as it is needed here: its headers may not be installed.
void* PyLong_AsVoidPtr(void* number);
void* PyEval_SaveThread();
void PyEval_RestoreThread(void* thread);
void Py_IncRef(void* object);
extern char _Py_NoneStruct;

const char* onednn_version() {
  static char text[64];
  const dnnl_version_t* v = dnnl_version();
  std::snprintf(text, sizeof text, "%d.%d.%d", v->major, v->minor, v->patch);
  return text;
}

// A convolution on the caller's arrays, or null with `message` filled in.
void* onednn_create(const int64_t* sizes, int channels_last, int reorders, float* input,
                    float* weights, float* output, char* message, size_t capacity) {
  try {
    return new Convolution(sizes, channels_last != 0, static_cast<Reorders>(reorders), input,
                           weights, output);
  } catch (const std::exception& error) {
    std::snprintf(message, capacity, "%s", error.what());
    return nullptr;
  }
}

const char* onednn_implementation(void* convolution) {
  return static_cast<Convolution*>(convolution)->implementation.c_str();
}

void onednn_run(void* convolution) { static_cast<Convolution*>(convolution)->run(); }

// The same as a built-in function of Python, whose `self` is the address of a convolution.
void* onednn_builtin(void* self, void*) {
  void* convolution = PyLong_AsVoidPtr(self);
  void* thread = PyEval_SaveThread();
  onednn_run(convolution);
  PyEval_RestoreThread(thread);
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

void onednn_collect(void* convolution) { static_cast<Convolution*>(convolution)->collect(); }

void onednn_destroy(void* convolution) { delete static_cast<Convolution*>(convolution); }
}
