// The eleven distinct convolutions of ResNet-18 (batch 1), as linalg on memrefs, and one on tensors.
//
// Inputs are already padded: in = stride * (out - 1) + filter. The layouts are NCHW for the images
// and FCHW for the weights. A linalg convolution adds to its output, hence the fill in front, which
// the compiler folds into the first write of each output element.
//
// Try: mopt-opt --mopt-analyze=machine=znver5 examples/resnet18.mlir

// The stem: 7x7 with stride 2 over the three colours of a 224x224 image.
func.func @conv1(%input: memref<1x3x229x229xf32>, %weights: memref<64x3x7x7xf32>,
    %output: memref<1x64x112x112xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x64x112x112xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x3x229x229xf32>, memref<64x3x7x7xf32>)
      outs(%output : memref<1x64x112x112xf32>)
  return
}

// The four convolutions of the first stage.
func.func @conv2_x_3x3(%input: memref<1x64x58x58xf32>, %weights: memref<64x64x3x3xf32>,
    %output: memref<1x64x56x56xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x64x56x56xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%input, %weights : memref<1x64x58x58xf32>, memref<64x64x3x3xf32>)
      outs(%output : memref<1x64x56x56xf32>)
  return
}

// Each later stage halves the image and doubles the channels: its first convolution has stride 2,
func.func @conv3_x_3x3_s2(%input: memref<1x64x57x57xf32>, %weights: memref<128x64x3x3xf32>,
    %output: memref<1x128x28x28xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x128x28x28xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x64x57x57xf32>, memref<128x64x3x3xf32>)
      outs(%output : memref<1x128x28x28xf32>)
  return
}

// its shortcut is a 1x1 convolution with stride 2,
func.func @conv3_x_1x1_s2(%input: memref<1x64x55x55xf32>, %weights: memref<128x64x1x1xf32>,
    %output: memref<1x128x28x28xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x128x28x28xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x64x55x55xf32>, memref<128x64x1x1xf32>)
      outs(%output : memref<1x128x28x28xf32>)
  return
}

// and the three that follow keep the shape.
func.func @conv3_x_3x3(%input: memref<1x128x30x30xf32>, %weights: memref<128x128x3x3xf32>,
    %output: memref<1x128x28x28xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x128x28x28xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%input, %weights : memref<1x128x30x30xf32>, memref<128x128x3x3xf32>)
      outs(%output : memref<1x128x28x28xf32>)
  return
}

func.func @conv4_x_3x3_s2(%input: memref<1x128x29x29xf32>, %weights: memref<256x128x3x3xf32>,
    %output: memref<1x256x14x14xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x256x14x14xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x128x29x29xf32>, memref<256x128x3x3xf32>)
      outs(%output : memref<1x256x14x14xf32>)
  return
}

func.func @conv4_x_1x1_s2(%input: memref<1x128x27x27xf32>, %weights: memref<256x128x1x1xf32>,
    %output: memref<1x256x14x14xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x256x14x14xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x128x27x27xf32>, memref<256x128x1x1xf32>)
      outs(%output : memref<1x256x14x14xf32>)
  return
}

func.func @conv4_x_3x3(%input: memref<1x256x16x16xf32>, %weights: memref<256x256x3x3xf32>,
    %output: memref<1x256x14x14xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x256x14x14xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%input, %weights : memref<1x256x16x16xf32>, memref<256x256x3x3xf32>)
      outs(%output : memref<1x256x14x14xf32>)
  return
}

func.func @conv5_x_3x3_s2(%input: memref<1x256x15x15xf32>, %weights: memref<512x256x3x3xf32>,
    %output: memref<1x512x7x7xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x512x7x7xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x256x15x15xf32>, memref<512x256x3x3xf32>)
      outs(%output : memref<1x512x7x7xf32>)
  return
}

func.func @conv5_x_1x1_s2(%input: memref<1x256x13x13xf32>, %weights: memref<512x256x1x1xf32>,
    %output: memref<1x512x7x7xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x512x7x7xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>}
      ins(%input, %weights : memref<1x256x13x13xf32>, memref<512x256x1x1xf32>)
      outs(%output : memref<1x512x7x7xf32>)
  return
}

func.func @conv5_x_3x3(%input: memref<1x512x9x9xf32>, %weights: memref<512x512x3x3xf32>,
    %output: memref<1x512x7x7xf32>) {
  %zero = arith.constant 0.0 : f32
  linalg.fill ins(%zero : f32) outs(%output : memref<1x512x7x7xf32>)
  linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%input, %weights : memref<1x512x9x9xf32>, memref<512x512x3x3xf32>)
      outs(%output : memref<1x512x7x7xf32>)
  return
}

// The same on tensors, as frameworks emit it: the result is a value, and it is the caller's.
func.func @conv2_x_3x3_tensor(%input: tensor<1x64x58x58xf32>, %weights: tensor<64x64x3x3xf32>)
    -> tensor<1x64x56x56xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<1x64x56x56xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  %output = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}
      ins(%input, %weights : tensor<1x64x58x58xf32>, tensor<64x64x3x3xf32>)
      outs(%init : tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
  return %output : tensor<1x64x56x56xf32>
}
