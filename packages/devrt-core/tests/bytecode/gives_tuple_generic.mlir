"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2xf32>, tensor<3xf32>) -> tuple<tensor<2xf32>, tensor<3xf32>>, sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2xf32>, %arg1: tensor<3xf32>):
    %0 = "stablehlo.tuple"(%arg0, %arg1) : (tensor<2xf32>, tensor<3xf32>) -> tuple<tensor<2xf32>, tensor<3xf32>>
    "func.return"(%0) : (tuple<tensor<2xf32>, tensor<3xf32>>) -> ()
  }) : () -> ()
}) : () -> ()
