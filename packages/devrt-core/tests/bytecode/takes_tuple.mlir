module {
  func.func public @main(%arg0: tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32> {
    %0 = stablehlo.get_tuple_element %arg0[0] : (tuple<tensor<2xf32>, tensor<3xf32>>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}
