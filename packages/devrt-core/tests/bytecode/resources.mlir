func.func @main(%a: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xi1>, tensor<3xi64>, tensor<0xf32>, tensor<2xf32>) {
  %0 = stablehlo.constant dense_resource<w> : tensor<2x5xf32>
  %1 = stablehlo.constant dense_resource<"a mask"> : tensor<2x5xi1>
  %2 = arith.constant dense<[1, 2, 3]> : tensor<3xi64>
  %3 = stablehlo.constant dense_resource<none> : tensor<0xf32>
  %4 = arith.constant dense_resource<pair> : tensor<2xf32>
  %5 = stablehlo.add %a, %0 : tensor<2x5xf32>
  return %5, %1, %2, %3, %4 : tensor<2x5xf32>, tensor<2x5xi1>, tensor<3xi64>, tensor<0xf32>, tensor<2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      w: "0x04000000000000000000803F0000004000004040000080400000A0400000C0400000E0400000004100001041",
      "a mask": "0x0100000001000101000001000001",
      none: "0x04000000",
      pair: "0x400000000000E04000000041"
    }
  }
#-}
