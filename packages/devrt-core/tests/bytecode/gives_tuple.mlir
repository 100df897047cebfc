module {
  func.func public @main(%arg0: tensor<2xf32>, %arg1: tensor<3xf32>) -> tuple<tensor<2xf32>, tensor<3xf32>> {
    %0 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<2xf32>, tensor<3xf32>>
    return %0 : tuple<tensor<2xf32>, tensor<3xf32>>
  }
}
