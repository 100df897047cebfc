module {
  func.func private @f(%arg0: tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32> {
    %0 = stablehlo.get_tuple_element %arg0[0] : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func public @main(%arg0: tensor<2xf32> {jax.buffer_donor = true}, %arg1: tensor<3xf32>, %arg2: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
    %0 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2xf32>, tensor<3xf32>>
    %1 = call @f(%0) : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
